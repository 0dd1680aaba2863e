"""Tell ``helpers submit --gpus 1 -- Rscript fit.R``, a program, from ``helpers submit train:main``, a function."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_KEY = "helpers.program"


class SubmitCommand(TyperCommand):
    """A command whose target is a program where ``--`` stands before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether ``--`` comes before any other argument, and parse as usual."""
        head, dashes, tail = _split(args)
        if dashes and tail:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(head))
            ctx.meta[_KEY] = not given.get("target")
        return super().parse_args(ctx, args)


def _split(args: list[str]) -> tuple[list[str], bool, list[str]]:
    if "--" not in args:
        return args, False, []
    place = args.index("--")
    return args[:place], True, args[place + 1 :]


def is_program(ctx: Any) -> bool:
    """Say whether what is submitted is a program."""
    return bool(ctx.meta.get(_KEY))
