"""Judge a commit: it may add declared raw data, and change a file only together with its line in the manifest.

Two things are looked at. The files as they lie there, by size and time: a change that is not committed is a change,
too. And what git is about to commit, which may be another content, or a file that is gone by now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from helpers.project.raw_data.keeping import NOT_STAGED, judge_keeping
from helpers.project.raw_data.staged import (
    StagedChange,
    staged_changes,
    staged_content,
    staged_file,
    staged_names,
)
from helpers.project.template.repository import is_under_git
from helpers.runtime.raw_data.area import Area, raw_area
from helpers.runtime.raw_data.check import Finding, Report, State, check, line_of
from helpers.runtime.raw_data.manifest import Manifest, escape, parse_manifest
from helpers.runtime.raw_data.walk import need_not_be_declared

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a commit would do to raw data.

    Args:
        report: How the files lie there.
        wrong: A line for each thing that must not be committed.
        notes: What is worth knowing and no obstacle.
    """

    report: Report
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def guard(project: Path) -> Verdict:
    """Judge what is about to be committed in a project.

    Raises:
        InvalidRequest: If the manifest cannot be read, git does not tell, or the repository is somebody else's.
    """
    area = raw_area(project)
    report = check(area)
    notes = _notes(report)
    in_git = is_under_git(project)
    staged = _judge_index(area) if in_git else _Staged()
    if not in_git:
        notes.append("there is no git here: only the files themselves were looked at")
    found = {finding.path: finding for finding in report.wrong}
    found |= {finding.path: finding for finding in staged.wrong}  # it knows more: where a file was renamed to
    wrong = [line_of(area, found[path]) for path in sorted(found)]
    return Verdict(report=report, wrong=wrong, notes=[*notes, *staged.notes])


@dataclass(frozen=True)
class _Staged:
    wrong: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _judge_index(area: Area) -> _Staged:
    folder = f"{area.root.relative_to(area.project).as_posix()}/"
    file = area.file.relative_to(area.project).as_posix()
    changes = staged_changes(area.project)
    if not any(name.startswith(folder) or name == file for change in changes for name in (change.path, change.target)):
        return _Staged()
    data = staged_file(area.project, file)
    manifest = area.manifest
    if data is None or sha256(data).hexdigest() != manifest.digest:
        manifest = Manifest() if data is None else parse_manifest(data, f"{file} as it is staged")
    staged = _Staged()
    staged.wrong.extend(judge_keeping(area, manifest, staged_names(area.project, folder.rstrip("/"))))
    for change in changes:
        if change.status in "DR" and change.path.startswith(folder):
            _judge_leaving(area, manifest, change, change.path.removeprefix(folder), staged)
        if change.status != "D" and change.target.startswith(folder):
            _judge_coming(area, manifest, change.target, change.target.removeprefix(folder), staged)
    return staged


def _judge_leaving(area: Area, manifest: Manifest, change: StagedChange, path: str, staged: _Staged) -> None:
    """Judge a file that git would have no more: it must be here still, or be declared no more."""
    if path not in manifest.entries:
        return
    if (area.root / path).is_file():
        staged.notes.append(f"{area.shown(path)} leaves git, and stays here and in the manifest")
        return
    detail = "" if change.status == "D" else f"renamed to {escape(change.target)}"
    staged.wrong.append(Finding(path=path, state=State.DELETED, detail=detail))


def _judge_coming(area: Area, manifest: Manifest, name: str, path: str, staged: _Staged) -> None:
    """Judge a file that git would have anew, or otherwise: the manifest of the same commit has to say so."""
    entry = manifest.entries.get(path)
    if entry is None:
        if not need_not_be_declared(path):
            is_declared = path in area.manifest.entries
            detail = NOT_STAGED if is_declared else ""
            staged.wrong.append(Finding(path=path, state=State.UNDECLARED, detail=detail))
        return
    is_link = (area.root / path).is_symlink()  # git has where it leads to, the manifest what is there
    content = None if is_link else staged_content(area.project, name)
    if content is not None and content != (entry.size, entry.sha256):
        detail = "what is staged is not what the staged manifest declares"
        staged.wrong.append(Finding(path=path, state=State.CHANGED, detail=detail))


def _notes(report: Report) -> list[str]:
    notes = []
    if unverified := report.counts.get(State.UNVERIFIED):
        notes.append(f"{unverified} large files were never read in this clone: helpers data verify")
    if fetched := report.counts.get(State.NOT_FETCHED):
        notes.append(f"{fetched} declared files were never fetched into this clone")
    if writable := report.writable:
        notes.append(f"not locked, as after a clone: {len(writable)} files or folders (helpers data lock)")
    return notes
