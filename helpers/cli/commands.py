"""Show this library's errors for what they are: for the ``helpers`` command, and for a project's own."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from helpers.cli.panels import PANELS, PROJECT

_WrongUsage: type[Exception] = typer.BadParameter.__mro__[1]  # typer exports none of the others, nor their parent


class Commands(TyperGroup):
    """A typer group whose commands end without a traceback when this library refuses a request.

    For ``typer.Typer(cls=Commands)``: the error and its hint go to stderr, and the exit code says which kind it was.
    """

    panel = PROJECT
    """Of a command that names none."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by panel; one that names none belongs to the project."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in named if command is not None and not command.hidden]
        room = 2 * (
            formatter.width - 6 - max((len(name) for name, _ in shown), default=0)
        )  # two lines: whole sentences
        panels = [getattr(command, "rich_help_panel", None) for _, command in shown]
        if not any(isinstance(panel, str) for panel in panels):  # a group, or a project's own command
            panels = ["Commands"] * len(shown)
        for panel in [
            *PANELS,
            *(name for name in dict.fromkeys(panels) if isinstance(name, str) and name not in PANELS),
        ]:
            rows = [
                (name, command.get_short_help_str(room))
                for (name, command), its in zip(shown, panels, strict=True)
                if (its if isinstance(its, str) else self.panel) == panel
            ]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error of ours, or wrong usage, becomes two lines and an exit code."""
        from helpers.errors import HelpersError

        try:
            return super().invoke(ctx)
        except _WrongUsage as error:
            if _is_help(error):
                raise
            _show_wrong_usage(error, getattr(error, "ctx", None) or ctx)
            raise typer.Exit(2) from None
        except HelpersError as error:
            from helpers.cli.report import exit_code_of, show_error

            show_error(error)
            raise typer.Exit(exit_code_of(error)) from None


def _is_help(error: Exception) -> bool:
    """Say whether this is the help of a command that was called without any arguments."""
    return type(error).show is not _WrongUsage.show  # type: ignore[attr-defined]


def _show_wrong_usage(error: Any, ctx: Any) -> None:
    """Print what is wrong, and where to read what is right."""
    import sys

    print(f"error: {error.format_message()}\nhint: {ctx.command_path} --help", file=sys.stderr)
