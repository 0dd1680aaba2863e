"""``helpers status``: how the runs of this project stand, or all that is known of some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.cli.runs import RunView

_NEWEST = 20
_LONGEST_REASON = 80  # characters

HELP = f"""Show how runs stand.

Without JOB: a table of the newest {_NEWEST} of this project. With JOB: all that is known of it, each attempt and why it
ended. The scheduler is asked once for all of them.
"""


def status(
    *,
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB", help="The scheduler's id, or a run folder.", autocompletion=complete_job),
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help=f"All runs, not only the newest {_NEWEST}.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON list, for programs; times in seconds since the epoch.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep the table up to date until all have ended, or Ctrl-C.")
    ] = False,
) -> None:
    """Show how runs stand; see HELP."""
    from pathlib import Path

    from helpers.cli.report import exit_code_of, note, show_error
    from helpers.cli.runs import look_at, newest_runs, read_runs
    from helpers.config import runs_folder
    from helpers.errors import ClusterUnreachable, InvalidRequest
    from helpers.submission.jobs.attach import find_folder

    if live and as_json:
        raise InvalidRequest("--json is one answer; --watch keeps a table.", hint="helpers status --json")
    here, limit = Path.cwd(), None if every else _NEWEST
    fixed = [find_folder(job) for job in jobs or []]
    folders = fixed or newest_runs(here, limit=limit)
    silent: ClusterUnreachable | None = None
    try:
        views = look_at(folders)
    except ClusterUnreachable as error:  # what the folders say is worth showing
        silent, views = error, read_runs(folders)
    if as_json:
        print_json([_record(view, whole=bool(jobs)) for view in views])
    elif not views:
        note(f"no runs in {runs_folder(here)}")
    elif live:
        from helpers.cli.watching import watch

        # without JOB, runs that are submitted meanwhile come into the table
        watch(views, lambda: look_at(fixed or newest_runs(here, limit=limit)), _live_table)
        return
    elif jobs:
        _print_each(views)
    else:
        _print_table(views)
    if silent is not None:
        show_error(silent)
        note("shown is what the run folders say")
        raise typer.Exit(exit_code_of(silent))


def _record(view: RunView, *, whole: bool) -> dict[str, Any]:
    if not whole:
        return view.as_record()
    from helpers.cli.show import whole_record

    return whole_record(view)


def _print_table(views: Sequence[RunView]) -> None:
    from helpers.cli.table import print_table

    print_table(*_columns(views))


def _live_table(views: Sequence[RunView]) -> Any:
    from helpers.cli.table import make_table

    return make_table(*_columns(views))


def _columns(views: Sequence[RunView]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    from helpers.cli.table import coloured, moment, span

    rows = [
        (
            view.id or "–",
            view.description.name,
            coloured(str(view.status.state)),
            str(view.status.attempt),
            moment(view.submitted),
            span(view.seconds),
            _short(view.why) or view.nodes,
        )
        for view in views
    ]
    return ("id", "name", "state", "attempt", "submitted", "attempt time", "where / reason"), rows


def _short(why: str) -> str:
    """Return the first line of a reason, cut to what is read at a glance; the whole is in ``helpers status JOB``."""
    line = why.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1].rstrip()}…"


def _print_each(views: Sequence[RunView]) -> None:
    from helpers.cli.details import print_details

    for number, view in enumerate(views):
        if number:
            typer.echo()
        print_details(view)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(status)
