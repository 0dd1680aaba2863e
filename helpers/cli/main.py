"""The ``helpers`` command: one line for each subcommand, and one place where our errors are shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from helpers import __version__
from helpers.cli import cancel, logs, status, submit
from helpers.cli.report import EXIT_CODES


class _Commands(TyperGroup):
    """The subcommands; an error of ours ends each of them without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        from helpers.errors import HelpersError

        try:
            return super().invoke(ctx)
        except HelpersError as error:
            from helpers.cli.report import exit_code_of, show_error
            from helpers.cli.values import options_instead_of_keywords

            show_error(error, rewrite_hint=options_instead_of_keywords)
            raise typer.Exit(exit_code_of(error)) from None


app = typer.Typer(
    cls=_Commands,
    help="Run Python functions as Slurm GPU jobs, and see what becomes of them.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: it answers at once, rich takes its time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"helpers {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    """Let each subcommand speak."""


for _command in (submit, status, logs, cancel):
    _command.add_to(app)
