"""List what lies in a folder of raw data, with one look at each file."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

UNDECLARED_NAMES = frozenset({"README.md", ".gitkeep", ".gitignore", ".gitattributes", ".DS_Store"})
"""What may lie beside the data and need not be declared."""

_NFS_LEFTOVER = ".nfs"  # what a network file system makes of a file that is deleted while it is open


class Found(NamedTuple):
    """A file: size in bytes, time in nanoseconds, mode bits, and whether it is a link."""

    size: int
    mtime_ns: int
    mode: int
    is_link: bool

    @property
    def is_file(self) -> bool:
        """Whether it can be read as one; not so a folder behind a link, a dead link, a pipe."""
        return stat.S_ISREG(self.mode)


@dataclass
class Tree:
    """What was found: files by their path below the root, and folders, the root itself as ``""``, with their mode."""

    files: dict[str, Found] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)


def walk(root: Path) -> Tree:
    """List a folder; links are judged by what they lead to, and not followed into folders.

    Raises:
        InvalidRequest: If a folder cannot be read.
    """
    tree = Tree()
    if not root.is_dir():
        return tree
    waiting = [("", str(root))]
    while waiting:
        name, place = waiting.pop()
        try:
            tree.folders[name] = os.stat(place).st_mode  # noqa: PTH116 -- ten thousand Paths would take longer
            entries = list(os.scandir(place))
        except OSError as error:
            raise InvalidRequest(f"{place} cannot be read: {error.strerror}.", hint=f"ls -ld {place}") from error
        for entry in entries:
            path = f"{name}/{entry.name}" if name else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append((path, entry.path))
            elif (found := _look_at(entry)) is not None:
                tree.files[path] = found
    return tree


def _look_at(entry: os.DirEntry[str]) -> Found | None:
    is_link = entry.is_symlink()
    try:
        status = entry.stat()
    except OSError:
        if not is_link:
            return None  # it is gone by now
        status = entry.stat(follow_symlinks=False)
    return Found(status.st_size, status.st_mtime_ns, status.st_mode, is_link)


def need_not_be_declared(path: str) -> bool:
    """Say whether a file is none of the data: a description, or what the file system left."""
    name = path.rpartition("/")[2]
    return name in UNDECLARED_NAMES or name.startswith(_NFS_LEFTOVER)
