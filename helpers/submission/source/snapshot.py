"""Keep the project's source as it was submitted, once for all runs of equal content.

::

    runs/.snapshots/<hash>/<project>/    what the job imports: copies of the source, links to all else
    runs/.snapshots/<hash>/.made         written last: the snapshot is whole

The hash is that of the paths, modes and contents. A file that the snapshot before has too is a hard link to
*its* copy, never to the user's file, which editors change in place. In one process the project is listed and
read once, and again when a file, a folder or git's index has changed.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import uuid
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from helpers.config import find_project
from helpers.runtime.files import write_json
from helpers.runtime.git import GitState, read_git_state
from helpers.runtime.rank.source import MADE, Source, own_names
from helpers.submission.source.project_files import TIME_LIMIT_S, ProjectFiles, TooLarge, list_project
from helpers.submission.source.untracked import difference_of, named
from helpers.submission.source.withheld import say_what_git_withholds

SNAPSHOTS = ".snapshots"
_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The source of a submission.

    Args:
        source: What ``run.json`` tells of it.
        difference: What is not committed, untracked code too, as ``git diff`` prints it.
    """

    source: Source
    difference: bytes = b""


@dataclass(kw_only=True)
class _Known:
    """What this process knows of a project."""

    taken: Taken
    files: ProjectFiles | None
    digests: dict[str, str]

    def is_current(self) -> bool:
        return self.files is not None and self.files.is_current() and self._is_there()

    def _is_there(self) -> bool:
        snapshot = self.taken.source.snapshot
        return snapshot is None or Path(snapshot).with_name(MADE).exists()


_known: dict[tuple[str, str, bool], _Known] = {}
_said: set[str] = set()


def take_source(directory: Path, runs: Path, *, wanted: bool) -> Taken | None:
    """Return the source of the project that ``directory`` belongs to, kept as it is now.

    Args:
        directory: The caller's working directory.
        runs: The folder of all runs.
        wanted: Whether to make a snapshot; without one, commit and changes are noted all the same.

    Returns:
        The source; None where the folder belongs to no project: neither ``[tool.helpers]`` nor git.
    """
    root = find_root(directory)
    if root is None:
        return None
    key = (str(root), str(runs), wanted)
    known = _known.get(key)
    if known is None or not known.is_current():
        known = _known[key] = _take(str(root), runs, known, wanted=wanted)
        _say(known.taken.source)
        if known.files is not None and not known.files.has_git and str(root) not in _said:
            _said.add(str(root))
            say_what_git_withholds(root)
    return known.taken


def find_root(directory: Path) -> Path | None:
    """Return the folder of the project: the nearest with ``[tool.helpers]``, else that of the git repository.

    A home folder that is itself a repository (of settings) is no project.
    """
    project = find_project(directory)
    if project is None:
        project = next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), None)
    return None if project is None or project in {Path.home(), Path(project.anchor)} else project


def _take(root: str, runs: Path, before: _Known | None, *, wanted: bool) -> _Known:
    deadline = time.monotonic() + TIME_LIMIT_S
    files: ProjectFiles | None = None
    digests = before.digests if before else {}
    snapshot, without = None, "" if wanted else "it is switched off"
    try:
        for _ in range(_TRIES):
            files = list_project(root, runs=str(runs), deadline=deadline)
            if not wanted or not files.files:
                break
            digests = _digests(files, before, deadline)
            snapshot = _keep(files, digests, runs / SNAPSHOTS, before, deadline)
            if snapshot is not None:
                break
        else:
            without = "its files changed while they were copied"
    except (TooLarge, OSError) as error:
        without = str(error)
    git = read_git_state(root) if files is None or files.has_git else GitState()
    source = Source(
        root=root,
        snapshot=snapshot,
        commit=git.commit,
        branch=git.branch,
        edited=git.edited or bool(files and files.untracked),
        changes=git.changes,
        untracked=named(files.untracked) if files else [],
        without=without,
    )
    difference = git.difference + (difference_of(files) if files else b"")
    return _Known(taken=Taken(source=source, difference=difference), files=files, digests=digests)


def _say(source: Source) -> None:
    if source.without in {"", "it is switched off"} or source.without in _said:
        return
    _said.add(source.without)
    print(
        f"helpers: no snapshot of {source.root}: {source.without}. The job runs the code as it is when it starts.\n"
        "  hint: let .gitignore name what is no source; or, in [tool.helpers.defaults]: snapshot = false",
        file=sys.stderr,
    )


def _digests(files: ProjectFiles, before: _Known | None, deadline: float) -> dict[str, str]:
    earlier = before.files if before else None
    digests = {}
    for name, stamp in files.files.items():
        if before and earlier and earlier.files.get(name) == stamp and earlier.is_settled(stamp):
            digests[name] = before.digests[name]
        else:
            digests[name] = _digest(Path(files.root, name))
        _check_time(deadline)
    return digests


def _digest(path: Path) -> str:
    """Return the hash of a file's content and of whether it can be run."""
    runs = b"x" if path.stat().st_mode & 0o100 else b"-"
    return blake2b(path.read_bytes(), digest_size=16, person=runs).hexdigest()


def _check_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TooLarge(f"copying its source took more than {TIME_LIMIT_S:.0f} s")


def _keep(
    files: ProjectFiles, digests: dict[str, str], snapshots: Path, before: _Known | None, deadline: float
) -> str | None:
    """Return the snapshot's folder, made if there is none of this content; None where a file changed meanwhile."""
    total = blake2b(
        repr((Path(files.root).name, sorted(digests.items()))).encode(errors="surrogateescape"), digest_size=10
    )
    place = snapshots / total.hexdigest()
    copy = place / Path(files.root).name
    if not (place / MADE).exists():
        unfinished = snapshots / f".{uuid.uuid4().hex}.tmp"
        try:
            if not _copy(files, digests, unfinished / copy.name, before, deadline):
                return None
            _link_rest(files, unfinished / copy.name)
            names = own_names(str(unfinished / copy.name))
            write_json(unfinished / MADE, {"root": files.root, "names": names}, durable=False)
            unfinished.rename(place)
        except OSError:
            if not (place / MADE).exists():  # else another process was faster with the same
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    _link_rest(files, copy)
    return str(copy)


def _copy(files: ProjectFiles, digests: dict[str, str], copy: Path, before: _Known | None, deadline: float) -> bool:
    for folder in sorted(files.folders):
        (copy / folder).mkdir(parents=True, exist_ok=True)
    earlier = before.taken.source.snapshot if before else None
    for name in files.files:
        target = copy / name
        same = before is not None and before.digests.get(name) == digests[name]
        if not (same and earlier is not None and _link(Path(earlier, name), target)):
            shutil.copy2(os.path.join(files.root, name), target)  # noqa: PTH118
            if _digest(target) != digests[name]:
                return False
            target.chmod(target.stat().st_mode & 0o555)  # others share it, by hard links too
        _check_time(deadline)
    return True


def _link(old: Path, new: Path) -> bool:
    try:
        new.hardlink_to(old)
    except OSError:
        return False
    return True


def _link_rest(files: ProjectFiles, copy: Path) -> None:
    """Let the snapshot lead to what it does not hold, so that a path from ``__file__`` finds data and results."""
    for name in files.linked:
        target = copy / name
        if not os.path.lexists(target):
            try:
                target.symlink_to(Path(files.root, name))
            except FileExistsError:
                continue  # by another submission, just now
