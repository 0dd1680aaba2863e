"""``helpers rerun`` and ``helpers resume``: run something once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RERUN_HELP = """Submit jobs once more: new runs, from the start, with the same call, code and resources.

Prints the new ids. Where one JOB is not known, none is submitted. With --failed each JOB is an array: those of its
elements that failed become a new array, of the code as it is now.
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


def rerun(
    *,
    jobs: _Jobs,
    failed: Annotated[bool, typer.Option("--failed", help="Of each array, what failed of it.")] = False,
    as_json: _Json = False,
) -> None:
    """Submit jobs once more; see RERUN_HELP."""
    _each(jobs, _rerun_failed if failed else _rerun_one, as_json=as_json)


def resume(*, jobs: _Jobs, as_json: _Json = False) -> None:
    """Go on with jobs; see RESUME_HELP."""
    from helpers.submission.jobs.again import resume as again

    _each(jobs, again, as_json=as_json)


def _each(jobs: list[str], again: Callable[[Any], Any], *, as_json: bool) -> None:
    """Print each new id as soon as it is known: a later refusal does not take an earlier job back."""
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.jobs.array_status import id_of
    from helpers.submission.jobs.attach import find_folder

    records = []
    try:
        for folder in [find_folder(job) for job in jobs]:
            new = again(folder)
            records.append({"id": id_of(RunFolder(new.folder)), "folder": new.folder})
            if not as_json:
                typer.echo(records[-1]["id"])
    finally:
        if as_json:
            print_json(records)


def _rerun_one(folder: Path) -> Any:
    """Submit a job once more; an array that failed is refused with the command that reruns what failed of it."""
    from helpers.cli.elements import element_records, failed_among
    from helpers.errors import InvalidRequest
    from helpers.runtime.run.description import read_description
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.jobs.again import rerun as again
    from helpers.submission.jobs.array_status import id_of

    run = RunFolder(folder)
    elements = element_records(run, read_description(run))
    if failed := failed_among(elements):
        raise InvalidRequest(
            f"{id_of(run)} is an array; {len(failed)} of its {len(elements)} jobs failed.",
            hint=f"helpers rerun {id_of(run)} --failed",
        )
    return again(folder)


def _rerun_failed(folder: Path) -> Any:
    """Submit what failed of an array as a new one.

    Raises:
        InvalidRequest: If it is none, or nothing of it has failed.
    """
    from helpers.cli.runs import look_at
    from helpers.errors import InvalidRequest
    from helpers.runtime.run.description import read_description
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.jobs.array import attach_array
    from helpers.submission.jobs.array_status import id_of

    job_id = id_of(RunFolder(folder))
    if not read_description(RunFolder(folder)).elements:
        raise InvalidRequest(f"{job_id} is one job, not an array.", hint=f"helpers rerun {job_id}")
    array = attach_array(folder)
    look_at([job.folder for job in array if (job.folder / "run.json").exists() and not job.done()])
    new = attach_array(folder).rerun_failed()
    if new is None:
        raise InvalidRequest(f"Nothing of the array {job_id} has failed so far.", hint=f"helpers status {job_id}")
    return new


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(help=RERUN_HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(rerun)
    app.command(help=RESUME_HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(resume)
