"""``helpers gc``: remove old runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import PROJECT
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from helpers.submission.jobs.cleaning import OldRun

HELP = """List the runs of this project that have ended, or remove some: by age, size and state.

\b
  helpers gc --older 30d --state failed --state cancelled
  helpers gc --older 90d --delete

Without --delete nothing is removed. With it, one of --older, --larger, --state must say what, and the list is shown and
asked about first; --yes answers. What goes is the whole run folder: results, logs and checkpoints; snapshots of source
that no run needs any more go with it. A run that has not ended is never removed, nor one that a waiting job needs.
"""


def gc(
    *,
    older: Annotated[str | None, typer.Option(metavar="AGE", help="Ended so long ago: 30d, 12h, 4w.")] = None,
    larger: Annotated[str | None, typer.Option(metavar="SIZE", help="Takes so much: 10G, 500M.")] = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Ended so: failed, cancelled, completed, …; may be repeated.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete/--dry-run", help="Remove them; unset, only list them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --delete: do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list of the runs, for programs.")] = False,
) -> None:
    """List or remove old runs; see HELP."""
    from pathlib import Path

    from helpers.config import runs_folder
    from helpers.errors import InvalidRequest
    from helpers.submission.jobs.attach import all_runs
    from helpers.submission.jobs.cleaning import find_old_runs, parse_age_s, parse_size, select

    here = Path.cwd()
    if delete and not (older or larger or state):
        raise InvalidRequest("--delete removes what --older, --larger or --state names.", hint="--older 30d --delete")
    older_s, size = (parse_age_s(older) if older else None), (parse_size(larger) if larger else None)
    folders = all_runs(here)
    _let_them_speak(folders)
    old = select(find_old_runs(folders), older_s=older_s, larger=size, states=state or ())
    if delete and old and not as_json:
        _print_table(old)
    if delete and old and not _agreed(old, yes=yes):
        raise typer.Exit(1)
    removed = _remove(old, runs_folder(here), folders) if delete else old
    _report(removed, deleted=delete, as_json=as_json)


def _let_them_speak(folders: Sequence[Path]) -> None:
    """Have those that the scheduler has ended say so; where it is silent, they stay."""
    from helpers.cli.report import note
    from helpers.cli.runs import look_at
    from helpers.errors import ClusterUnreachable

    try:
        look_at(folders)
    except ClusterUnreachable as error:
        note(f"{error.message} Only runs that say themselves how they ended are listed.")


def _agreed(old: Sequence[OldRun], *, yes: bool) -> bool:
    """Ask, unless that was answered already; without a terminal nobody can be asked."""
    import sys

    from helpers.errors import InvalidRequest
    from helpers.project.storage import size_in_words

    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidRequest("There is no terminal to ask on whether to remove these runs.", hint="--delete --yes")
    runs = "this run" if len(old) == 1 else f"these {len(old)} runs"
    return typer.confirm(f"Remove {runs} ({size_in_words(sum(one.size for one in old))}) for good?", err=True)


def _remove(old: Sequence[OldRun], runs: Path, folders: Sequence[Path]) -> list[OldRun]:
    """Remove runs, and the snapshots that only they needed; what cannot be removed is named and left."""
    import shutil

    from helpers.cli.report import note
    from helpers.errors import InvalidRequest
    from helpers.submission.jobs.cleaning import remove, unused_snapshots

    removed = []
    for one in old:
        try:
            remove(one)
        except InvalidRequest as error:
            note(error.message)
        else:
            removed.append(one)
    for snapshot in unused_snapshots(runs, [folder for folder in folders if folder.exists()]):
        shutil.rmtree(snapshot, ignore_errors=True)
    return removed


def _report(old: Sequence[OldRun], *, deleted: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from helpers.cli.report import note
    from helpers.project.storage import size_in_words

    if as_json:
        records = [{**asdict(one), "age_s": one.age_s, "removed": deleted} for one in old]
        print_json(records)
        return
    if not deleted and old:
        _print_table(old)
    size, runs = size_in_words(sum(one.size for one in old)), "1 run" if len(old) == 1 else f"{len(old)} runs"
    note(f"removed {runs}, {size}" if deleted else f"{runs}, {size}; nothing was removed (--delete removes)")


def _print_table(old: Sequence[OldRun]) -> None:
    from helpers.cli.table import coloured, print_table, span
    from helpers.project.storage import size_in_words

    rows = [
        (
            one.job_id or "–",
            one.name,
            coloured(str(one.state)),
            span(one.age_s),
            size_in_words(one.size),
            str(one.folder),
        )
        for one in old
    ]
    print_table(("id", "name", "state", "age", "size", "folder"), rows)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=PROJECT)(gc)
