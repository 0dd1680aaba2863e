"""Run the code as it was submitted: import it from the snapshot, or say that it has changed.

A path of the caller that leads into the project leads into the project's snapshot in the job. Packages that
are installed in editable mode are found by such a path (a ``.pth`` file) or by a finder of setuptools, which
is told the same. Programs that the function starts find the snapshot through ``PYTHONPATH``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.runtime.files import known_fields, read_json
from helpers.runtime.git import read_git_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MADE = ".made"
"""The file beside a snapshot that is written last; it names what the snapshot has in its first two levels."""

_EDITABLE = "__editable__"  # how setuptools names the modules of its finders


@dataclass(frozen=True, kw_only=True)
class Source:
    """The code of a run, as it was submitted.

    Args:
        root: The project's folder, as the caller sees it.
        snapshot: Its copy, from which the job imports; None where there is none.
        commit: What is checked out; None without git.
        branch: Its name; None without git, empty for a detached HEAD.
        edited: Whether tracked files differ from the commit, or code is there that git does not know yet.
        changes: A hash of the tracked files' difference; None where there is none.
        untracked: The code that git does not know yet; of many the first.
        without: Why there is no snapshot, where that needs saying.
    """

    root: str
    snapshot: str | None = None
    commit: str | None = None
    branch: str | None = None
    edited: bool = False
    changes: str | None = None
    untracked: list[str] = field(default_factory=list)
    without: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether somebody has removed the copy, or this machine does not see it."""
        return self.snapshot is not None and not Path(self.snapshot).is_dir()

    def inside(self, path: str) -> str | None:
        """Return where the snapshot has ``path``; None where it has no such folder of its own.

        What the snapshot only links to (data, an environment in the project) stays what it is.
        """
        if self.snapshot is None:
            return None
        for root, place in ((self.root, path), (os.path.realpath(self.root), os.path.realpath(path))):
            if place == root or place.startswith(root + os.sep):
                copy = os.path.normpath(os.path.join(self.snapshot, os.path.relpath(place, root)))  # noqa: PTH118 -- text, as in sys.path
                return copy if _is_own(copy, self.snapshot) else None
        return None

    def search_path(self, entries: Iterable[str]) -> list[str]:
        """Return a module search path that leads into the snapshot wherever ``entries`` lead into the project."""
        found = []
        for entry in entries:
            if self.snapshot is not None and os.path.realpath(entry) == os.path.dirname(os.path.realpath(self.root)):  # noqa: PTH120
                found.append(str(Path(self.snapshot).parent))  # the project's folder is itself the package
            found.append(self.inside(entry) or entry)
        return found


def read_source(record: Mapping[str, Any] | None) -> Source | None:
    """Return the source that ``run.json`` tells of."""
    return None if not record else Source(**known_fields(Source, record))


def import_as_submitted(source: Source | None, entries: Iterable[str]) -> None:
    """Make this process, and those that it starts, import as the caller did, from the snapshot where there is one."""
    path = list(entries)
    if source is not None:
        lead_programs(source, path)
        path = source.search_path(path)
    sys.path[:] = path


def lead_programs(source: Source, entries: Iterable[str]) -> None:
    """Let the programs that this process starts find in the snapshot what the caller found by ``entries``."""
    known = list(entries)
    children = [new for new in source.search_path(known) if new not in known]
    children += _redirect_editable_finders(source)
    if children:
        earlier = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*children, *filter(None, [earlier])]))


def ignored_python_path(entries: Iterable[str]) -> list[str]:
    """Return what ``PYTHONPATH`` names in this job and the caller's path had not: modules there are not found."""
    known = {os.path.realpath(entry) for entry in entries}
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [entry for entry in named if entry and os.path.realpath(entry) not in known]


def say_what_was_written(source: Source | None) -> None:
    """Say what the job has made inside the snapshot, where nobody looks for it."""
    with contextlib.suppress(OSError):  # it is a remark; the job's ending is what counts
        names = written_into(source)
        if source is not None and names:
            print(
                f"[helpers] written into the snapshot of the code, not into the project: {', '.join(names[:5])} "
                f"in {source.snapshot}; a path from __file__ leads there, one from the current folder does not",
                file=sys.stderr,
            )


def written_into(source: Source | None) -> list[str]:
    """Return what this job has made inside the snapshot: a path from ``__file__`` has led there.

    Only the project's first two levels are looked at, where folders for results are made.
    """
    if source is None or source.snapshot is None:
        return []
    known = read_json(Path(source.snapshot).with_name(MADE))
    names = set(known["names"]) if known else set()
    return sorted(name for name in own_names(source.snapshot) if name not in names) if names else []


def own_names(snapshot: str) -> list[str]:
    """Return what lies in the first two levels of a snapshot and is no link."""
    names = []
    for folder in ("", *(entry.name for entry in os.scandir(snapshot) if entry.is_dir(follow_symlinks=False))):
        with os.scandir(os.path.join(snapshot, folder)) as entries:  # noqa: PTH118
            own = [entry.name for entry in entries if not entry.is_symlink() and entry.name != "__pycache__"]
        names += [f"{folder}/{name}" if folder else name for name in own]
    return names


def _redirect_editable_finders(source: Source) -> list[str]:
    """Point the finders of packages in editable mode to the snapshot, and return the folders that hold those."""
    holders = []
    for name, module in list(sys.modules.items()):
        if not name.startswith(_EDITABLE):
            continue
        mapping: dict[str, str] = getattr(module, "MAPPING", {})
        for package, place in mapping.items():
            copy = source.inside(place)
            if copy is not None:
                mapping[package] = copy
                holders.append(str(Path(copy).parent))
        namespaces: dict[str, list[str]] = getattr(module, "NAMESPACES", {})
        for places in namespaces.values():
            places[:] = [source.inside(place) or place for place in places]
    return holders


def _is_own(copy: str, snapshot: str) -> bool:
    """Say whether the snapshot holds this itself: a package's folder, or the stem of a single module's file."""
    own = os.path.realpath(copy)
    real = os.path.realpath(snapshot)
    if own != real and not own.startswith(real + os.sep):
        return False
    return os.path.isdir(copy) or os.path.isfile(copy) or os.path.isfile(f"{copy}.py")  # noqa: PTH112, PTH113


def changed_since(source: Source) -> str:
    """Say how the code that this job imports differs from what was submitted; empty where it does not."""
    if source.is_lost:
        return f"the code as it was submitted is gone ({source.snapshot}): this runs what {source.root} has now"
    if source.snapshot is not None or source.commit is None:
        return ""
    now = read_git_state(source.root)
    if (now.commit, now.changes) == (source.commit, source.changes):
        return ""
    before, after = _in_words(source.commit, source.edited), _in_words(now.commit, now.edited)
    return f"the code in {source.root} has changed since this was submitted: then {before}, now {after}"


def _in_words(commit: str | None, edited: bool) -> str:
    return f"{(commit or 'without a commit')[:12]}{' with uncommitted changes' if edited else ''}"
