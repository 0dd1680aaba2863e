"""``helpers cancel``: end jobs."""

from __future__ import annotations

from typing import Annotated

import typer

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
) -> None:
    """Ask for the end of jobs; see HELP."""
    from helpers.cli.runs import look_at
    from helpers.runtime.run_folder import RunFolder
    from helpers.submission.attach import find_folder
    from helpers.submission.clusters import choose_cluster

    for view in look_at([find_folder(job) for job in jobs]):
        if view.status.state.is_final or view.description.cluster == "inline":
            typer.echo(f"{view.id} has ended before: {view.status.state}")
            continue
        choose_cluster(view.description.cluster, call="").cancel(RunFolder(view.folder), view.id)
        typer.echo(f"{view.id} is asked to end")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(cancel)
