"""The ``helpers`` command: one line for each subcommand, and one place where our errors are shown."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers import __version__
from helpers.cli import (
    again,
    archive,
    bench,
    cancel,
    checkpoint,
    config,
    data,
    doctor,
    env,
    fleet,
    gc,
    gpus,
    logs,
    notebook,
    shell,
    show,
    status,
    storage,
    submit,
    template,
)
from helpers.cli.commands import Commands
from helpers.cli.report import EXIT_CODES

app = typer.Typer(
    cls=Commands,
    help="Run Python functions as Slurm GPU jobs, and see what becomes of them.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=True,
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


for _command in (
    submit,
    status,
    show,
    logs,
    cancel,
    again,
    checkpoint,
    doctor,
    bench,
    shell,
    notebook,
    gpus,
    config,
    gc,
):
    _command.add_to(app)
for _command in (template, fleet):
    _command.add_to(app)
for _command in (data, storage, archive, env):
    _command.add_to(app)
