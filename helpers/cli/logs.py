"""``helpers logs``: what a job prints."""

from __future__ import annotations

from typing import Annotated

import typer

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
) -> None:
    """Show what a job prints; see HELP."""
    from helpers.cli.report import note
    from helpers.errors import InvalidRequest
    from helpers.runtime.description import read_description
    from helpers.runtime.run_folder import RunFolder
    from helpers.submission.attach import attach, find_folder
    from helpers.submission.logs import read_logs

    folder = find_folder(job)
    processes = read_description(RunFolder(folder)).processes
    if rank is not None and rank >= processes:
        raise InvalidRequest(f"The job has ranks 0 to {processes - 1}; got {rank}.", hint=f"helpers logs {job}")
    attempts = RunFolder(folder).attempts()
    if attempt is not None and attempt not in attempts:
        known = f"attempts {attempts[0]} to {attempts[-1]}" if attempts else "no attempt so far"
        raise InvalidRequest(f"The job has {known}; got attempt {attempt}.", hint=f"helpers logs {job}")
    if follow:
        from helpers.cli.following import follow_logs

        follow_logs(attach(folder), rank=rank or 0, attempt=attempt)
    elif text := read_logs(RunFolder(folder), rank=rank, attempt=attempt):
        typer.echo(text, nl=False)
    else:
        note(f"nothing has been printed yet; helpers status {job} says how it stands")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(logs)
