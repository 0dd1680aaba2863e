"""``helpers archive``: pack a run for a tape or a slow disk, and bring it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
from helpers.cli.panels import PROJECT
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from helpers.project.archive import Archived

HELP = """Pack runs that have ended, each into one file, and prove that it is whole; or bring one back.

\b
  helpers archive 4711 --to /archive/vision
  helpers archive --verify /archive/vision/train-20260531-abc.tar.gz
  helpers archive --restore /archive/vision/train-20260531-abc.tar.gz

Every file is read back and compared with its checksum before this says that it is done. With --remove the run itself
goes then.
"""


def archive(
    *,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN…", help="The scheduler's id, or a run folder.", autocompletion=complete_job),
    ] = None,
    to: Annotated[Path | None, typer.Option(help="Where it goes; unset, storage.archive.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the run, once its archive is proved whole.")] = False,
    restore: Annotated[Path | None, typer.Option(metavar="FILE", help="Bring a run back.")] = None,
    verify: Annotated[Path | None, typer.Option(metavar="FILE", help="Read an archive through.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list, for programs.")] = False,
) -> None:
    """Pack or restore runs; see HELP."""
    from helpers.config import runs_folder
    from helpers.errors import InvalidRequest
    from helpers.project.archive import restore_run, verify_archive

    if [bool(runs), restore is not None, verify is not None].count(True) != 1:
        raise InvalidRequest("helpers archive takes runs, or --restore, or --verify.", hint="helpers archive 4711")
    if restore is not None:
        _report([restore_run(restore, to or runs_folder(Path.cwd()))], "restored", as_json=as_json)
    elif verify is not None:
        _report([verify_archive(verify)], "whole", as_json=as_json)
    else:
        _report(_pack(runs or [], to, remove=remove), "packed", as_json=as_json)


def _pack(runs: list[str], to: Path | None, *, remove: bool) -> list[Archived]:
    from helpers.cli.runs import look_at
    from helpers.config import storage_folder
    from helpers.errors import InvalidRequest
    from helpers.project.archive import archive_run
    from helpers.submission.jobs.attach import find_folder
    from helpers.submission.jobs.cleaning import find_old_runs
    from helpers.submission.jobs.cleaning import remove as remove_run

    target = to or storage_folder("archive", Path.cwd())
    if target is None:
        raise InvalidRequest(
            "No setting says where archives go.", hint='--to FOLDER, or archive = "/a/folder" in [tool.helpers.storage]'
        )
    folders = [find_folder(run) for run in runs]
    look_at(folders)  # one that the scheduler has ended says so
    packed = []
    for folder in folders:
        packed.append(archive_run(folder, target))
        if remove:
            for old in find_old_runs([folder]):
                remove_run(old)
    return packed


def _report(archived: list[Archived], word: str, *, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print_json([asdict(one) for one in archived])
        return
    for one in archived:
        place = one.run if word == "restored" else one.file
        typer.echo(f"{word}: {place} ({one.files} files, {one.size:,} bytes, every checksum is right)")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=PROJECT)(archive)
