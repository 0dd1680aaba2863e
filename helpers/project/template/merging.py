"""Merge what the template changed into what the project has: a file at a time, three-way, by ``git merge-file``."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.template.stamp import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from helpers.project.template.pin import Pin

_ALL_CONFLICTS_TOLD = 127  # git merge-file's exit code is the number of conflicts, up to this
_LABELS = ("this project", "the template it came from", "the template now")


class Action(StrEnum):
    """What became of a file."""

    ADDED = "added"
    UPDATED = "updated"
    MERGED = "merged"
    REMOVED = "removed"
    KEPT = "kept"
    """Changed here and gone from the template."""
    STAYS_DELETED = "stays deleted"
    CONFLICT = "CONFLICT"
    """Marked in the file; or, of what is no text, left as it is here."""


@dataclass(frozen=True)
class Change:
    """What became of one file."""

    path: str
    action: Action


@dataclass(frozen=True, kw_only=True)
class Trees:
    """The three folders of a merge.

    Args:
        project: The user's.
        old: The template's at the commit that the project came from, with its answers.
        new: The template's now.
        made: sha256 of the files as the template once made them, by the stamp: a file that still has it is unedited,
            even where the old template cannot be made again byte for byte.
        pin: The library's requirement, which moves before the merge.
    """

    project: Path
    old: Path
    new: Path
    made: Mapping[str, str]
    pin: Pin


def merge_trees(trees: Trees, paths: Iterable[str]) -> list[Change]:
    """Merge the files of these paths, relative to each tree; return what was done, nothing for what stays."""
    merged = ((path, _merge(trees, path)) for path in sorted(paths))
    return [Change(path, action) for path, action in merged if action is not None]


def _merge(trees: Trees, path: str) -> Action | None:
    old, new, ours = (_read(folder / path) for folder in (trees.old, trees.new, trees.project))
    if new in (old, ours):
        return None
    if ours is None:
        was_here = old is not None or path in trees.made
        return Action.STAYS_DELETED if was_here else _take(trees, path, Action.ADDED)
    is_unedited = ours == old or sha256(ours) == trees.made.get(path)
    if new is None:
        return _drop(trees, path) if is_unedited else Action.KEPT
    if is_unedited:
        return _take(trees, path, Action.UPDATED)
    return _merge_text(trees.project / path, *map(trees.pin.moved, (ours, old or b"", new)))


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _drop(trees: Trees, path: str) -> Action:
    (trees.project / path).unlink()
    return Action.REMOVED


def _take(trees: Trees, path: str, action: Action) -> Action:
    target = trees.project / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(trees.new / path, target)
    return action


def _merge_text(target: Path, ours: bytes, old: bytes, new: bytes) -> Action | None:
    if any(b"\0" in content for content in (ours, old, new)):
        return Action.CONFLICT
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder, name) for name in ("ours", "old", "new")]
        for side, content in zip(sides, (ours, old, new), strict=True):
            side.write_bytes(content)
        labels = [word for label in _LABELS for word in ("-L", label)]
        command = ["git", "merge-file", "-p", *labels, *map(str, sides)]
        done = subprocess.run(command, capture_output=True, check=False)
    if not 0 <= done.returncode <= _ALL_CONFLICTS_TOLD:
        said = done.stderr.decode(errors="replace").strip()
        raise InvalidRequest(f"git merge-file did not work for {target}: {said}")
    if done.stdout == target.read_bytes():
        return None
    target.write_bytes(done.stdout)
    return Action.CONFLICT if done.returncode else Action.MERGED
