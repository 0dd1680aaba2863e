"""Show this library's errors for what they are: for the ``helpers`` command, and for a project's own."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class Commands(TyperGroup):
    """A typer group whose commands end without a traceback when this library refuses a request.

    For ``typer.Typer(cls=Commands)``: the error and its hint go to stderr, and the exit code says which kind it was.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error of ours becomes two lines and an exit code."""
        from helpers.errors import HelpersError

        try:
            return super().invoke(ctx)
        except HelpersError as error:
            from helpers.cli.report import exit_code_of, show_error
            from helpers.cli.values import options_instead_of_keywords

            show_error(error, rewrite_hint=options_instead_of_keywords)
            raise typer.Exit(exit_code_of(error)) from None
