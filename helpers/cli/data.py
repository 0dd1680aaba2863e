"""``helpers data``: raw data that nobody changes unnoticed."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 -- typer reads it
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import PROJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.config import Settings
    from helpers.project.raw_data.adding import Added
    from helpers.project.raw_data.locking import Changed
    from helpers.runtime.raw_data.area import Area
    from helpers.runtime.raw_data.check import Report

HELP = "Keep raw data as it was received: declare, lock, check."
EXIT_CODES = """\b
Exit codes:
  0    done; verify, guard: every file is as declared (or was never fetched)
  1    verify, guard: a file is changed, deleted or undeclared; lock, unlock: a write bit cannot be set
  2    the request breaks a rule
"""
ADD_HELP = """Declare files in data/raw.manifest, and lock them.

\b
  helpers data add data/raw/scans.tar          in place
  helpers data add ~/Downloads/scans.tar       copied to data/raw first
  helpers data add --reference /big/store      stays where it is: only listed, in data/store.manifest

A file that is declared is never changed by this, unless --replace says so.
"""
LOCK_HELP = "Take the write bits of all declared files and of their folders: after a clone, or an unlock."
UNLOCK_HELP = """Give the write bits back: to change raw data on purpose, or to remove the project.

\b
  helpers data unlock && rm -rf ../project
"""
VERIFY_HELP = """Compare all raw data with its manifests, by size and time; read what those do not tell.

With --full every file is read.
"""
STATUS_HELP = "Show how raw data stands, by size and time, whether it is locked, and what the storage says."
FORGET_HELP = "Take files out of the manifest, when they must not be kept. The files themselves are yours to remove."
GUARD_HELP = """Judge the commit in progress: for a pre-commit hook. No network, no more than git and the files.

Raw data must be as declared, and a changed file comes with its changed line in data/raw.manifest.
"""
_MOST_SHOWN = 50
_Json = Annotated[bool, typer.Option("--json", help="A JSON object, for programs.")]


def add(
    *,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE…", help="Files, or folders of them.", show_default=False)
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data elsewhere: list it, touch nothing.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the reference; unset, its folder's.")] = None,
    checksums: Annotated[
        bool, typer.Option("--checksums/--no-checksums", help="With --reference: read every file, or take its time.")
    ] = True,
    replace: Annotated[bool, typer.Option("--replace", help="What is declared may become another.")] = False,
    as_json: _Json = False,
) -> None:
    """Declare files; see ADD_HELP."""
    from helpers.errors import InvalidRequest
    from helpers.project.raw_data.adding import add as add_files
    from helpers.project.raw_data.reference import add_reference
    from helpers.runtime.raw_data.area import raw_area

    if bool(files) == (reference is not None):
        raise InvalidRequest(
            "helpers data add takes files, or --reference and a folder.", hint="helpers data add data/raw/FILE"
        )
    project, settings = _project()
    if reference is not None:
        data = _data_folder(project, settings)
        added = add_reference(project, reference, name=name, data=data, checksums=checksums, replace_declared=replace)
    else:
        added = add_files(raw_area(project), files or [], replace_declared=replace)
    _report_added(added, as_json=as_json)


def forget(
    *,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Declared files, or folders of them.")],
    as_json: _Json = False,
) -> None:
    """Take files out of the manifest; see FORGET_HELP."""
    from helpers.project.raw_data.adding import forget as forget_files
    from helpers.runtime.raw_data.area import raw_area

    area = raw_area(_project()[0])
    gone = forget_files(area, files)
    if as_json:
        print_json({"forgotten": gone})
        return
    for path in gone:
        typer.echo(f"no longer declared: {area.shown(path)}")


def lock(*, as_json: _Json = False) -> None:
    """Take the write bits; see LOCK_HELP."""
    from helpers.project.raw_data.locking import lock as lock_area
    from helpers.runtime.raw_data.area import raw_area

    area = raw_area(_project()[0])
    _report_bits(area, lock_area(area), "locked", as_json=as_json)
    _mention_root()


def unlock(*, as_json: _Json = False) -> None:
    """Give the write bits back; see UNLOCK_HELP."""
    from helpers.project.raw_data.locking import unlock as unlock_area
    from helpers.runtime.raw_data.area import raw_area

    area = raw_area(_project()[0])
    _report_bits(area, unlock_area(area), "unlocked", as_json=as_json)


def verify(
    *,
    full: Annotated[bool, typer.Option("--full", help="Read every file.")] = False,
    as_json: _Json = False,
) -> None:
    """Compare with the manifests; see VERIFY_HELP."""
    from helpers.runtime.raw_data.check import check

    reports = [check(area, full=full, read_at_most=float("inf")) for area in _areas()]
    _report_all(reports, as_json=as_json)
    if any(report.wrong for report in reports):
        raise typer.Exit(1)


def status(*, as_json: _Json = False) -> None:
    """Show how raw data stands; see STATUS_HELP."""
    from helpers.project.storage import storage_warnings
    from helpers.runtime.raw_data.check import check

    project, settings = _project()
    reports = [check(area) for area in _areas()]
    warnings = storage_warnings(project, settings)
    _report_all(reports, as_json=as_json, warnings=warnings, with_bits=True)


def guard(*, as_json: _Json = False) -> None:
    """Judge the commit in progress; see GUARD_HELP."""
    from helpers.cli.report import note
    from helpers.project.raw_data.guard import guard as judge

    verdict = judge(_project()[0])
    if as_json:
        print_json({"wrong": verdict.wrong, "notes": verdict.notes})
    else:
        _print_some(verdict.wrong)
        for words in verdict.notes:
            note(words)
        if verdict.wrong:
            note("raw data is not as data/raw.manifest says, so nothing was committed. New files are declared by")
            note("  helpers data add FILE; a change on purpose by helpers data unlock, then add --replace FILE.")
            note(
                "  By accident: git restore --staged --worktree FILE brings back what git has; then: helpers data lock"
            )
    if verdict.wrong:
        raise typer.Exit(1)


def _project() -> tuple[Path, Settings]:
    """Return the folder whose raw data is meant: the project's, or the current one where that has some."""
    from helpers.config import find_project, read_settings, working_directory
    from helpers.errors import InvalidRequest

    here = working_directory()
    project = find_project(here) or (here if (here / "data").is_dir() else None)
    if project is None:
        raise InvalidRequest(
            f"There is no project here: no pyproject.toml with [tool.helpers] in {here} or above, and no data/ in it.",
            hint="cd into the project",
        )
    return project, read_settings(here)


def _data_folder(project: Path, settings: Settings) -> Path | None:
    from helpers.config import storage_folder

    return storage_folder("data", project, settings)


def _areas() -> list[Area]:
    from helpers.submission.raw_data import areas_of

    return areas_of(*_project())[0]


def _report_added(added: Added, *, as_json: bool) -> None:
    from helpers.cli.report import note

    area = added.area
    if as_json:
        names = {"new": added.new, "replaced": added.replaced, "known": added.known}
        print_json({**names, "unprotected": added.unprotected, "manifest": area.file})
        return
    _print_some([f"declared: {area.shown(path)}" for path in added.new])
    _print_some([f"declared anew: {area.shown(path)}" for path in added.replaced])
    if added.known:
        note(f"declared before, as they are: {len(added.known)}")
    for path, reason in list(added.unprotected.items())[:_MOST_SHOWN]:
        note(f"not locked: {area.shown(path)}: {reason}")
    if not area.is_reference:
        _mention_root()
    entries = area.manifest.entries
    in_git = any(entries[path].in_git for path in (*added.new, *added.replaced, *added.known))
    note(f"to commit: git add {area.file.relative_to(area.project)}{f' data/{area.name}' if in_git else ''}")


def _report_bits(area: Area, done: Changed, word: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"changed": done.changed, "failed": done.failed})
    else:
        _print_some([f"not {word}: {area.shown(path)}: {reason}" for path, reason in done.failed.items()])
        typer.echo(f"{word}: data/raw ({len(done.changed)} files or folders changed)")
    if done.failed:
        raise typer.Exit(1)


def _mention_root() -> None:
    from helpers.cli.report import note
    from helpers.project.raw_data.locking import is_root

    if is_root():
        note("you are root, whom write bits do not stop; a change is still found by helpers data verify")


def _report_all(
    reports: Sequence[Report], *, as_json: bool, warnings: Sequence[str] = (), with_bits: bool = False
) -> None:
    from helpers.cli.report import note
    from helpers.project.raw_data.keeping import what_is_unsaid

    if as_json:
        print_json({"areas": [_as_record(report) for report in reports], "storage": list(warnings)})
        return
    if not reports:
        note("there is no raw data: no data/raw, and no manifest in data/")
    for report in reports:
        counts = ", ".join(f"{count} {state}" for state, count in report.counts.items() if count) or "no file"
        where = str(report.area.root) if report.area.is_reference else "data/raw"
        typer.echo(f"{where}: {counts}")
        _print_some([f"  {line}" for line in report.lines()])
        if with_bits and report.writable:
            typer.echo(f"  not locked: {len(report.writable)} files or folders (helpers data lock)")
        if unsaid := what_is_unsaid(report.area):
            note(unsaid)
    for words in warnings:
        note(words)


def _as_record(report: Report) -> dict[str, Any]:
    area = report.area
    return {
        "name": area.name,
        "root": str(area.root),
        "manifest": str(area.file),
        "sha256": area.manifest.digest,
        "files": len(area.manifest.entries),
        "counts": {str(state): count for state, count in report.counts.items()},
        "findings": [
            {"path": finding.path, "state": str(finding.state), "detail": finding.detail} for finding in report.findings
        ],
        "writable": report.writable,
    }


def _print_some(lines: Sequence[str]) -> None:
    for line in lines[:_MOST_SHOWN]:
        typer.echo(line)
    if len(lines) > _MOST_SHOWN:
        typer.echo(f"  and {len(lines) - _MOST_SHOWN} more; --json has all")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)
    commands = (
        (add, ADD_HELP), (status, STATUS_HELP), (verify, VERIFY_HELP), (lock, LOCK_HELP), (unlock, UNLOCK_HELP),
        (forget, FORGET_HELP), (guard, GUARD_HELP),
    )  # fmt: skip
    for command, text in commands:
        group.command(help=text, epilog=EXIT_CODES)(command)
    app.add_typer(group, name="data", rich_help_panel=PROJECT)
