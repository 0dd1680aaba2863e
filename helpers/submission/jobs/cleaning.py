"""Remove runs that nobody needs any more: by age, size and state, never one that has not ended."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.duration import UNITS_S
from helpers.runtime.rank.source import read_source
from helpers.runtime.run.description import read_description
from helpers.runtime.run.element import ELEMENTS
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.pointer import POINTERS
from helpers.runtime.run.status import State, read_ledger, read_status
from helpers.submission.resources.amounts import UNITS_BYTES, read_quantity
from helpers.submission.source.snapshot import SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from helpers.runtime.run.description import Description

_DAY_S = 86400
_UNITS_OF_AGE = {unit: s for unit, s in UNITS_S.items() if s >= UNITS_S["h"]}  # "6m" might be meant as months


@dataclass(frozen=True, kw_only=True)
class OldRun:
    """A run that has ended.

    Args:
        folder: The run folder.
        name: Of the run.
        job_id: The scheduler's id of its newest attempt.
        state: How it ended; of an array, of the element that ended worst.
        ended: When it last changed, in seconds since the epoch.
        size: What it takes on the disk, in bytes; a file with several names counts once.
    """

    folder: Path
    name: str
    job_id: str
    state: State
    ended: float
    size: int

    @property
    def age_s(self) -> float:
        """Seconds since it ended."""
        return time.time() - self.ended


def find_old_runs(folders: Iterable[Path]) -> list[OldRun]:
    """Return those of the runs that have ended and that no waiting run needs, oldest first.

    A run's own word counts: one that the scheduler has ended without it has to be looked at first (``look_at``).
    """
    folders = list(folders)
    needed = {path for folder in folders if _state(folder) is None for path in _needs(folder)}
    found = []
    for folder in folders:
        state = _state(folder)
        if state is None or str(folder) in needed:
            continue
        run = RunFolder(folder)
        ledger = read_ledger(run)
        found.append(
            OldRun(
                folder=folder,
                name=read_description(run).name,
                job_id=ledger[-1]["job_id"] if ledger else "",
                state=state,
                ended=_ended(run),
                size=size_of(folder),
            )
        )
    return sorted(found, key=lambda old: old.ended)


def select(
    runs: Sequence[OldRun], *, older_s: float | None = None, larger: int | None = None, states: Sequence[str] = ()
) -> list[OldRun]:
    """Return the runs for which all that is given holds.

    Raises:
        InvalidRequest: If there is no such state.
    """
    final = [str(state) for state in State if state.is_final]
    wanted = {state.upper() for state in states}
    for state in sorted(wanted - set(final)):
        raise InvalidRequest(f"A run cannot have ended as {state!r}.", hint=f"one of: {', '.join(final)}")
    return [
        old
        for old in runs
        if (older_s is None or old.age_s >= older_s)
        and (larger is None or old.size >= larger)
        and (not wanted or old.state in wanted)
    ]


def remove(old: OldRun) -> None:
    """Remove a run: first its name, so that nobody finds a half, then the files, then what points to it.

    Raises:
        InvalidRequest: If it runs again since it was looked at, or is somebody else's.
    """
    if _state(old.folder) is None:
        raise InvalidRequest(f"{old.folder} has been taken up again: it is not removed.")
    doomed = old.folder.with_name(f".{old.folder.name}.removed")
    try:
        old.folder.rename(doomed)
        shutil.rmtree(doomed)
        if not any(old.folder.parent.iterdir()):
            old.folder.parent.rmdir()
    except OSError as error:
        raise InvalidRequest(
            f"{old.folder} cannot be removed: {error.strerror}.", hint=f"ls -ld {old.folder}"
        ) from error
    _remove_pointers(old.folder)


def unused_snapshots(runs_folder: Path, kept: Iterable[Path]) -> list[Path]:
    """Return the snapshots of source that none of the runs that stay was submitted with.

    One younger than a day may belong to a run that is being submitted.
    """
    used = set()
    for folder in kept:
        description = _description(folder)
        source = read_source(description.source) if description else None
        if source is not None and source.snapshot:
            used.add(os.path.basename(os.path.dirname(source.snapshot)))  # noqa: PTH119, PTH120 -- text, as it was written
    snapshots = runs_folder / SNAPSHOTS
    if not snapshots.is_dir():
        return []
    young = time.time() - _DAY_S
    return sorted(path for path in snapshots.iterdir() if path.name not in used and path.stat().st_mtime < young)


def size_of(folder: Path) -> int:
    """Return what a folder takes on the disk, in bytes; links are not followed."""
    seen: set[tuple[int, int]] = set()
    size = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                status = os.lstat(os.path.join(where, name))  # noqa: PTH118 -- a hundred thousand Paths take seconds
            except OSError:
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                size += status.st_blocks * 512
    return size


def parse_age_s(text: str) -> float:
    """Read an age: ``30d``, ``12h``, ``4w``, in seconds.

    Raises:
        InvalidRequest: If it is none of these.
    """
    age_s = read_quantity(text, _UNITS_OF_AGE)
    if age_s is None:
        raise InvalidRequest(f"An age is written as 30d, 12h or 4w; got {text!r}.", hint="--older 30d")
    return age_s


def parse_size(text: str) -> int:
    """Read a size: ``10G``, ``500M``, in bytes; a number alone might be anything.

    Raises:
        InvalidRequest: If it is none of these.
    """
    size = read_quantity(text, UNITS_BYTES)
    if size is None:
        raise InvalidRequest(f"A size is written as 10G or 500M; got {text!r}.", hint="--larger 10G")
    return int(size)


def _state(folder: Path) -> State | None:
    """Return how a run has ended, by its own word; None where it has not, or that is not known."""
    run = RunFolder(folder)
    if run.resume_mark.exists():
        return None
    description = _description(folder)
    if description is None:
        return None
    if description.elements:
        count = len(description.elements)
        states = [_own_state(RunFolder(folder / ELEMENTS / str(number))) for number in range(count)]
        known = [state for state in states if state is not None]
        if len(known) < count:
            return None
        return next((state for state in known if state is not State.COMPLETED), State.COMPLETED)
    return _own_state(run)


def _own_state(run: RunFolder) -> State | None:
    status = read_status(run)
    return status.state if status is not None and status.state.is_final else None


def _description(folder: Path) -> Description | None:
    """Return what a run is; None where its file is cut short, or that of another version."""
    try:
        return read_description(RunFolder(folder))
    except (OSError, ValueError, TypeError):
        return None


def _needs(folder: Path) -> list[str]:
    """Return the runs that a run waits for, or whose results it takes; of an array's element the whole array."""
    description = _description(folder)
    elements = [Path(path) for path in (description.after if description else ())]
    return [str(path.parent.parent if path.parent.name == ELEMENTS else path) for path in elements]


def _ended(run: RunFolder) -> float:
    times = [status.updated for status in [read_status(run)] if status is not None]
    times += [path.stat().st_mtime for path in (run.path / ELEMENTS).glob("*/status.json")]
    return max(times, default=run.path.stat().st_mtime)


def _remove_pointers(folder: Path) -> None:
    runs = folder.parent.parent
    target = str(folder.relative_to(runs))
    for pointer in (runs / POINTERS).glob("*"):
        try:
            text = pointer.read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if text == target or text.startswith(f"{target}/"):
            pointer.unlink(missing_ok=True)
