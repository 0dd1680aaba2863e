"""Take away and give back the write bits of raw data, of its files and of its folders.

Without its folder's bit a file can be replaced under its name, or removed. Git keeps no write bit, so a clone has to be
locked anew; and nothing of this stops root: what a check compares is size, time and content.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.runtime.raw_data.walk import walk

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.runtime.raw_data.area import Area

_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What was done about the write bits.

    Args:
        changed: Files and folders whose bits are others now.
        failed: Those that could not be changed, with the reason.
    """

    changed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def lock(area: Area) -> Changed:
    """Take the write bits of all declared files and all folders, the outermost last."""
    tree = walk(area.root)
    files = {path: found.mode for path, found in tree.files.items() if path in area.manifest.entries}
    links = {path for path, found in tree.files.items() if found.is_link or not found.is_file}
    modes = {path: mode & ~_WRITE for path, mode in files.items() if path not in links}
    modes |= {path: tree.folders[path] & ~_WRITE for path in sorted(tree.folders, reverse=True)}
    return _change(area.root, {**files, **tree.folders}, modes)


def unlock(area: Area) -> Changed:
    """Let the owner write again to all files and folders, the outermost first; for the group, its umask decides."""
    tree = walk(area.root)
    files = {path: found.mode for path, found in tree.files.items() if found.is_file and not found.is_link}
    modes = {path: tree.folders[path] | stat.S_IWUSR for path in sorted(tree.folders)}
    modes |= {path: mode | stat.S_IWUSR for path, mode in files.items()}
    return _change(area.root, {**files, **tree.folders}, modes)


def is_root() -> bool:
    """Say whether write bits stop this user at all."""
    return os.geteuid() == 0


def _change(root: Path, before: dict[str, int], modes: dict[str, int]) -> Changed:
    done = Changed()
    for path, mode in modes.items():
        if mode == before[path]:
            continue
        try:
            (root / path).chmod(stat.S_IMODE(mode))
        except OSError as error:
            done.failed[path] = error.strerror or str(error)
        else:
            done.changed.append(path)
    return done
