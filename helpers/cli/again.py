"""``helpers rerun`` and ``helpers resume``: run something once more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.completion import complete_job
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Callable

RERUN_HELP = """Submit jobs once more: new runs, from the start, with the same call, code and resources.

Prints the new ids. Where one JOB is not known, none is submitted.
"""
RESUME_HELP = """Go on with jobs that have ended: same run folder, new id, from the newest checkpoint.

Prints the new ids. Refused for a job that has not ended, has succeeded, or has saved nothing to go on from. Where one
JOB is not known, none is submitted.
"""
_Jobs = Annotated[
    list[str],
    typer.Argument(metavar="JOB", help="The scheduler's id, or a run folder.", autocompletion=complete_job),
]
_Json = Annotated[bool, typer.Option("--json", help="A JSON list of id and folder, for programs.")]


def rerun(*, jobs: _Jobs, as_json: _Json = False) -> None:
    """Submit jobs once more; see RERUN_HELP."""
    from helpers.submission.again import rerun as again

    _each(jobs, again, as_json=as_json)


def resume(*, jobs: _Jobs, as_json: _Json = False) -> None:
    """Go on with jobs; see RESUME_HELP."""
    from helpers.submission.again import resume as again

    _each(jobs, again, as_json=as_json)


def _each(jobs: list[str], again: Callable[[Any], Any], *, as_json: bool) -> None:
    """Print each new id as soon as it is known: a later refusal does not take an earlier job back."""
    from helpers.submission.attach import find_folder

    records = []
    try:
        for folder in [find_folder(job) for job in jobs]:
            new = again(folder)
            records.append({"id": new.id, "folder": str(new.folder)})
            if not as_json:
                typer.echo(new.id)
    finally:
        if as_json:
            typer.echo(json.dumps(records, indent=1, ensure_ascii=False))


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(help=RERUN_HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(rerun)
    app.command(help=RESUME_HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(resume)
