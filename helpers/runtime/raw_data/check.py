"""Compare raw data with its manifest: by size and time, and by its content where those do not tell.

A file whose size and time are those under which it was last read is as it was then. Another time is no change yet:
the file is read. How much is read at most, the caller says: a job or a commit does not wait for terabytes. What is
not read counts as changed where its time has moved since it was last read here, and as unverified where it never
was, as after a copy to another cluster.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from helpers.runtime.raw_data.pointer import LARGEST, read_pointer
from helpers.runtime.raw_data.times import RACY_NS, Seen, Times
from helpers.runtime.raw_data.tracked import tracked
from helpers.runtime.raw_data.walk import Found, Tree, need_not_be_declared, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from helpers.runtime.raw_data.area import Area
    from helpers.runtime.raw_data.manifest import Entry

QUICK_BYTES = 2 * 2**30
"""What a quick check reads at most: some seconds."""

_THREADS = 8
_BLOCK = 2**20


class State(StrEnum):
    """How a file stands to its manifest."""

    OK = "ok"
    CHANGED = "changed"
    DELETED = "deleted"
    UNDECLARED = "undeclared"
    NOT_FETCHED = "not fetched"  # declared, kept out of git, and never seen in this clone
    UNVERIFIED = "unverified"  # of the right size, and never read in this clone

    @property
    def is_wrong(self) -> bool:
        """Whether the data is not what results lead back to."""
        return self in {State.CHANGED, State.DELETED, State.UNDECLARED}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A file that is not simply as declared.

    Args:
        path: Below the root.
        state: See :class:`State`.
        detail: What is known besides, for people.
    """

    path: str
    state: State
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """How one area stands.

    Args:
        area: What was looked at.
        findings: Each file that is not as declared, by path.
        counts: Files by state.
        tree: What was found.
    """

    area: Area
    findings: list[Finding]
    counts: dict[State, int]
    tree: Tree = field(repr=False)

    @property
    def wrong(self) -> list[Finding]:
        """What must not be: changed, deleted, undeclared."""
        return [finding for finding in self.findings if finding.state.is_wrong]

    @property
    def writable(self) -> list[str]:
        """Declared files and folders that anybody may write to, as after a clone; of a reference none counts."""
        if self.area.is_reference:
            return []
        files = [path for path in self.area.manifest.entries if _is_writable(self.tree.files.get(path))]
        return [*(path for path, mode in self.tree.folders.items() if mode & 0o222), *files]

    def lines(self) -> list[str]:
        """Return a line for each finding."""
        return [line_of(self.area, finding) for finding in self.findings]


def line_of(area: Area, finding: Finding) -> str:
    """Return ``changed: data/raw/a.csv (its size …)``."""
    detail = f" ({finding.detail})" if finding.detail else ""
    return f"{finding.state}: {area.shown(finding.path)}{detail}"


def check(area: Area, *, full: bool = False, read_at_most: float = QUICK_BYTES) -> Report:
    """Compare an area with its manifest.

    Args:
        area: What is compared.
        full: Whether every file is read, also those whose size and time are known.
        read_at_most: How many bytes are read where size and time do not tell; ``math.inf`` for any number.

    Raises:
        InvalidRequest: If a folder cannot be read.
    """
    tree, times = walk(area.root), Times.read(area.times)
    entries = area.manifest.entries
    findings = [
        Finding(path=path, state=State.UNDECLARED)
        for path in tree.files.keys() - entries.keys()
        if not need_not_be_declared(path)
    ]
    findings += _missing(area, [entry for path, entry in entries.items() if path not in tree.files], times)
    present = [(entry, tree.files[path]) for path, entry in entries.items() if path in tree.files]
    judged = [(entry, found, _judge(area, entry, found, times, full=full)) for entry, found in present]
    findings += [finding for _, _, finding in judged if finding is not None and finding.state is not State.OK]
    unread = [(entry, found) for entry, found, finding in judged if finding is None]
    findings += _read(area, unread, times, read_at_most=float("inf") if full else read_at_most)
    times.write()
    counts = Counter(finding.state for finding in findings)
    counts[State.OK] = len(entries) - sum(count for state, count in counts.items() if state is not State.UNDECLARED)
    return Report(area=area, findings=sorted(findings, key=lambda one: one.path), counts=dict(counts), tree=tree)


def _judge(area: Area, entry: Entry, found: Found, times: Times, *, full: bool) -> Finding | None:
    """Judge a file by what is known without reading it; None where that does not tell."""
    seen = times.seen.get(entry.path)
    if not found.is_file:
        return Finding(path=entry.path, state=State.CHANGED, detail="it is no file any more")
    if found.size != entry.size:
        if _is_pointer(area, entry, found):
            return Finding(path=entry.path, state=State.NOT_FETCHED, detail="git lfs pull fetches it")
        detail = f"it has {found.size:,} bytes, {entry.size:,} were declared"
        return Finding(path=entry.path, state=State.CHANGED, detail=detail)
    has_its_time = found.mtime_ns == entry.mtime_ns
    if not entry.sha256 and not has_its_time:
        return Finding(path=entry.path, state=State.CHANGED, detail="its time is another, and no checksum was taken")
    if entry.sha256 and not full and seen is not None and seen[:2] == (found.size, found.mtime_ns):
        return _compare(entry, seen.sha256)
    return Finding(path=entry.path, state=State.OK) if has_its_time and not (full and entry.sha256) else None


def _is_pointer(area: Area, entry: Entry, found: Found) -> bool:
    """Say whether git-lfs has left its note of this very file in its place."""
    if found.size > LARGEST:
        return False
    try:
        return read_pointer((area.root / entry.path).read_bytes()) == (entry.size, entry.sha256)
    except OSError:
        return False


def _compare(entry: Entry, sha256: str) -> Finding:
    if sha256 == entry.sha256:
        return Finding(path=entry.path, state=State.OK)
    return Finding(path=entry.path, state=State.CHANGED, detail="its content is another")


def _read(area: Area, unread: Sequence[tuple[Entry, Found]], times: Times, *, read_at_most: float) -> list[Finding]:
    """Read files, the smallest first, as far as allowed; return those that are not as declared."""
    findings, wanted, left = [], [], read_at_most
    for entry, found in sorted(unread, key=lambda pair: pair[1].size):
        left -= found.size
        if left >= 0:
            wanted.append(entry)
        else:
            findings.append(_unread(entry, times.seen.get(entry.path)))
    for entry, seen in zip(wanted, read_files(area, [entry.path for entry in wanted]), strict=True):
        if isinstance(seen, OSError):
            findings.append(Finding(path=entry.path, state=State.CHANGED, detail=f"it cannot be read: {seen.strerror}"))
            continue
        times.remember(entry.path, seen)
        judged = _compare(entry, seen.sha256)
        if judged.state is not State.OK:
            findings.append(judged)
    return findings


def _unread(entry: Entry, seen: Seen | None) -> Finding:
    if seen is not None and seen.mtime_ns:
        detail = "its time is another than when it was read; helpers data verify reads it again"
        return Finding(path=entry.path, state=State.CHANGED, detail=detail)
    return Finding(path=entry.path, state=State.UNVERIFIED)


def read_files(area: Area, paths: Iterable[str]) -> list[Seen | OSError]:
    """Read files, several at a time, and return what each was like, in their order."""
    wanted = list(paths)
    if not wanted:
        return []
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda path: _read_file(area.root / path), wanted))


def _read_file(path: Path) -> Seen | OSError:
    """Return size, time and checksum; time 0 where the file was changing, or may be without another time."""
    began = time.time_ns()
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            while block := file.read(_BLOCK):
                digest.update(block)
            after = os.fstat(file.fileno())
    except OSError as error:
        return error
    is_settled = before.st_mtime_ns == after.st_mtime_ns < began - RACY_NS
    return Seen(after.st_size, after.st_mtime_ns if is_settled else 0, digest.hexdigest())


def _missing(area: Area, entries: Sequence[Entry], times: Times) -> list[Finding]:
    """Tell a file that was deleted from one that was kept out of git and that this clone has never had."""
    lost = {entry.path for entry in entries if entry.in_git or entry.path in times.seen}
    if len(lost) < len(entries) and not area.is_reference:
        lost |= tracked(area)
    return [
        Finding(path=entry.path, state=State.DELETED if entry.path in lost else State.NOT_FETCHED) for entry in entries
    ]


def _is_writable(found: Found | None) -> bool:
    return found is not None and not found.is_link and bool(found.mode & 0o222)
