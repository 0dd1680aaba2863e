"""Remember size and time of each file when it was last read, so that a check need not read it again.

The file lies in a folder that git ignores by a ``.gitignore`` of its own. Whoever deletes it loses nothing but the
time that reading takes. It may be written by several at once: each writes it whole, and the last one holds.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from helpers.runtime.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

RACY_NS = 50_000_000
"""A file changed so shortly before it was read may change again without another time."""


class Seen(NamedTuple):
    """A file when it was read: size in bytes, time in nanoseconds (0: do not trust it), and sha256."""

    size: int
    mtime_ns: int
    sha256: str


@dataclass
class Times:
    """What is remembered of the files of one manifest, by path."""

    file: Path
    seen: dict[str, Seen] = field(default_factory=dict)
    changed: bool = False

    @classmethod
    def read(cls, file: Path) -> Times:
        """Read what was remembered; nothing, where that cannot be had."""
        times = cls(file)
        with contextlib.suppress(OSError, ValueError, TypeError):
            times.seen = {path: Seen(*seen) for path, seen in json.loads(file.read_bytes()).items()}
        return times

    def remember(self, path: str, seen: Seen) -> None:
        """Note how a file was found."""
        if self.seen.get(path) != seen:
            self.seen[path] = seen
            self.changed = True

    def forget(self, path: str) -> None:
        """Take out a file that is no longer declared."""
        self.changed |= self.seen.pop(path, None) is not None

    def write(self) -> None:
        """Write it, where something is new; a project that only others may write to goes without."""
        if not self.changed:
            return
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(exist_ok=True)
            ignore = self.file.parent / ".gitignore"
            if not ignore.exists():
                write_whole(ignore, b"*\n", durable=False)
            write_whole(self.file, json.dumps(self.seen).encode(), durable=False)
            self.changed = False
