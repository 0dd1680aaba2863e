"""Let the group read a run folder, but for what is private, where the settings say ``share = "group"``."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.runtime.run.pointer import POINTERS

if TYPE_CHECKING:
    from helpers.runtime.run.folder import RunFolder

GROUP = "group"
_READ, _READ_AND_ENTER = stat.S_IRGRP, stat.S_IRGRP | stat.S_IXGRP


def open_to_group(run: RunFolder) -> None:
    """Let the group read what a run folder has so far, and find it; ``private/`` stays closed.

    Which group that is, the folder says: below a folder with the setgid bit, its group; else the user's own.
    """
    _allow(run.path)
    if not current_umask() & _READ_AND_ENTER:
        return  # all else can be read as it is
    run.ledger.touch()
    runs = run.path.parent.parent
    for folder in (runs, run.path.parent, runs / POINTERS):
        _allow(folder)
    for place, below, files in os.walk(run.path):
        below[:] = [name for name in below if name != run.private.name]
        for name in (*below, *files):
            _allow(Path(place, name))


def share_new_files() -> int:
    """Let the group read what this process makes from now on, and return its new umask."""
    umask = current_umask() & ~_READ_AND_ENTER
    os.umask(umask)
    return umask


def current_umask() -> int:
    """Return the umask without changing it: another thread may be making a file."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.split("\nUmask:", 1)[1].split("\n", 1)[0], 8)
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _allow(path: Path) -> None:
    """Add the group's bits, where the file is ours; the folder's other bits (setgid) stay."""
    with contextlib.suppress(OSError):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) | (_READ_AND_ENTER if stat.S_ISDIR(mode) else _READ))
