"""Show this library's errors for what they are: for the ``helpers`` command, and for a project's own."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from helpers.cli.panels import PANELS, PROJECT


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
        room = formatter.width - 6 - max((len(name) for name, _ in shown), default=0)
        panels = [getattr(command, "rich_help_panel", None) for _, command in shown]
        if not any(isinstance(panel, str) for panel in panels):  # a project's own command has no panels
            super().format_commands(ctx, formatter)
            return
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
        """Run a command; an error of ours becomes two lines and an exit code."""
        from helpers.errors import HelpersError

        try:
            return super().invoke(ctx)
        except HelpersError as error:
            from helpers.cli.report import exit_code_of, show_error
            from helpers.cli.values import options_instead_of_keywords

            show_error(error, rewrite_hint=options_instead_of_keywords)
            raise typer.Exit(exit_code_of(error)) from None
