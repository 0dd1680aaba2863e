"""``helpers checkpoint ls|verify|prune``: what a run has saved, and whether it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
from helpers.cli.panels import PROJECT
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from helpers.training.checkpoints.inspection import Saved

HELP = "Show, verify and remove the checkpoints of a run."
LS_HELP = """List the checkpoints of a run, oldest first. Only their lists of files are read: see verify."""
VERIFY_HELP = """Read every byte of every checkpoint and compare it with its checksum.

Nothing is changed. The exit code is 1 if one is damaged.
"""
PRUNE_HELP = """Remove old checkpoints of a run, all but the newest whole ones; the best one stays.

Without --delete nothing is removed. Damaged ones neither count nor go, unless --damaged is given.
"""
_Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="The scheduler's id, a run folder, or a folder of checkpoints.", autocompletion=complete_job
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="A JSON list, for programs.")]


def ls(*, run: _Run, as_json: _Json = False) -> None:
    """List checkpoints; see LS_HELP."""
    from helpers.training.checkpoints.inspection import list_saved

    _report(list_saved(_folder(run)), as_json=as_json)


def verify(*, run: _Run, as_json: _Json = False) -> None:
    """Read checkpoints through; see VERIFY_HELP."""
    from helpers.training.checkpoints.inspection import list_saved

    saved = list_saved(_folder(run), verify=True)
    _report(saved, as_json=as_json)
    if any(one.damage for one in saved):
        raise typer.Exit(1)


def prune(
    *,
    run: _Run,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest whole ones stay.")] = 1,
    damaged: Annotated[bool, typer.Option("--damaged", help="Remove what is damaged, too.")] = False,
    delete: Annotated[bool, typer.Option("--delete/--dry-run", help="Remove them; unset, only list them.")] = False,
    as_json: _Json = False,
) -> None:
    """Remove checkpoints; see PRUNE_HELP."""
    from helpers.cli.report import note
    from helpers.training.checkpoints.inspection import choose_spare, remove_saved

    folder = _folder(run)
    spare = choose_spare(folder, keep=keep, damaged=damaged)
    if delete:
        remove_saved(folder, spare)
    _report(spare, as_json=as_json)
    if spare and not delete:
        note("nothing was removed; --delete does it")


def _folder(run: str) -> Path:
    """Return where the checkpoints of a run are.

    Raises:
        InvalidRequest: If there is no such run or folder, or it is an array, whose elements have their own.
    """
    from pathlib import Path

    from helpers.errors import InvalidRequest
    from helpers.runtime.run.description import read_description
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.jobs.array_status import ids_of_elements, parts_of
    from helpers.submission.jobs.attach import find_folder
    from helpers.training.checkpoints.loading import find_checkpoint_folder

    folder = Path(run) if Path(run).is_dir() else find_folder(run)
    files = RunFolder(folder)
    if files.description.exists() and read_description(files).elements:
        first = next(iter(ids_of_elements(parts_of(files))), "JOB_0")
        raise InvalidRequest(
            f"{run} is an array: each of its jobs has checkpoints of its own.", hint=f"helpers checkpoint ls {first}"
        )
    return find_checkpoint_folder(folder)


def _report(saved: Sequence[Saved], *, as_json: bool) -> None:
    from dataclasses import asdict

    from helpers.cli.report import note
    from helpers.cli.table import print_table
    from helpers.project.storage import size_in_words

    if as_json:
        print_json([asdict(one) for one in saved])
        return
    if not saved:
        note("no checkpoint")
        return
    rows = [
        [
            one.name,
            "" if one.step is None else str(one.step),
            "" if one.ranks is None else str(one.ranks),
            size_in_words(one.size),
            one.time or "",
            one.damage or one.unreadable or ("verified" if one.verified else "whole"),
        ]
        for one in saved
    ]
    print_table(["CHECKPOINT", "STEP", "RANKS", "SIZE", "SAVED (UTC)", "STATE"], rows)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)
    group.command(help=LS_HELP, epilog=EXIT_CODES)(ls)
    group.command(help=VERIFY_HELP, epilog=EXIT_CODES)(verify)
    group.command(help=PRUNE_HELP, epilog=EXIT_CODES)(prune)
    app.add_typer(group, name="checkpoint", rich_help_panel=PROJECT)
