"""``helpers logs``: what a job prints."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

HELP = """Show what a job has printed, of the batch script and of every process, over all its attempts.

With --follow: what one process prints, as it comes, until the job ends; Ctrl-C leaves the job alone.
"""


def logs(
    *,
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The scheduler's id, or a run folder.", autocompletion=complete_job)
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    rank: Annotated[
        int | None, typer.Option(min=0, help="Of this process alone; unset, of all; with --follow, of rank 0.")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=0, help="Of this attempt alone; unset, of all.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON list of path and text, for programs; not with --follow.")
    ] = False,
) -> None:
    """Show what a job prints; see HELP."""
    from helpers.cli.elements import element_records, hint_for_elements
    from helpers.cli.report import note
    from helpers.errors import InvalidRequest
    from helpers.runtime.run.description import read_description
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.jobs.attach import attach, find_folder
    from helpers.submission.jobs.logs import check_rank, read_logs, texts_of_logs

    folder = find_folder(job)
    description = read_description(RunFolder(folder))
    if description.elements:
        array = RunFolder(folder)
        records = element_records(array, description)
        whose = f"each of its {len(records)} jobs has" if len(records) > 1 else "its one job has"
        raise InvalidRequest(f"{job} is an array: {whose} logs of its own.", hint=hint_for_elements(array, records))
    check_rank(description, rank)
    attempts = RunFolder(folder).attempts()
    if attempt is not None and attempt not in attempts:
        known = f"attempts {attempts[0]} to {attempts[-1]}" if attempts else "no attempt so far"
        raise InvalidRequest(f"The job has {known}; got attempt {attempt}.", hint=f"helpers logs {job}")
    if follow and as_json:
        raise InvalidRequest("--json gives what has been printed so far; --follow does not end before the job does.")
    if as_json:
        texts = texts_of_logs(RunFolder(folder), rank=rank, attempt=attempt)
        print_json([{"path": path, "text": text} for path, text in texts])
    elif follow:
        from helpers.cli.following import follow_logs

        follow_logs(attach(folder), rank=rank or 0, attempt=attempt)
    elif text := read_logs(RunFolder(folder), rank=rank, attempt=attempt):
        typer.echo(text, nl=False)
    else:
        note(f"nothing has been printed yet; helpers status {job} says how it stands")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(logs)
