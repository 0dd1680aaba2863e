"""``helpers cancel``: end jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

HELP = """Ask for the end of jobs, waiting or running; checkpoints stay.

Where one JOB is not known, none is cancelled. One that has ended already is left as it is, which is no error.
"""


def cancel(
    *,
    jobs: Annotated[
        list[str],
        typer.Argument(metavar="JOB", help="The scheduler's id, or a run folder.", autocompletion=complete_job),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list of id, state and asked, for programs.")] = False,
) -> None:
    """Ask for the end of jobs; see HELP."""
    from helpers.cli.runs import look_at
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.clusters.choice import choose_cluster
    from helpers.submission.jobs.array import attach_array
    from helpers.submission.jobs.attach import find_folder

    records = []
    for view in look_at([find_folder(job) for job in jobs]):
        ended = view.status.state.is_final or view.description.cluster == "inline"
        if not ended and view.description.elements:
            attach_array(view.folder).cancel()
        elif not ended:
            choose_cluster(view.description.cluster).cancel({view.id: RunFolder(view.folder)})
        records.append({"id": view.id, "state": str(view.status.state), "asked": not ended})
        if not as_json:
            typer.echo(f"{view.id} has ended before: {view.status.state}" if ended else f"{view.id} is asked to end")
    if as_json:
        print_json(records)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(cancel)
