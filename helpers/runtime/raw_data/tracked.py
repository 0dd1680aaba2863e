"""Ask git which raw files it keeps: those come with every clone, the others by a copy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from helpers.runtime.git import run_git

if TYPE_CHECKING:
    from helpers.runtime.raw_data.area import Area


def in_index(area: Area) -> set[str]:
    """Return the files that git has in its index; none where there is no git."""
    return _ask(area, "ls-files", "-z")


def tracked(area: Area) -> set[str]:
    """Return the files that git has, in its index or in the last commit; none where there is no git."""
    return in_index(area) | _ask(area, "ls-tree", "-rz", "--name-only", "HEAD", below=f"{_folder(area)}/")


def to_be_tracked(area: Area) -> set[str]:
    """Return the files that git has in its index, or takes in by the next ``git add`` since nothing ignores them."""
    return _ask(area, "ls-files", "-z", "--cached", "--others", "--exclude-standard")


def _ask(area: Area, *command: str, below: str | None = None) -> set[str]:
    folder = _folder(area)
    printed = run_git(str(area.project), *command, "--", below or folder) or b""
    return names_below(printed, folder)


def names_below(printed: bytes, folder: str) -> set[str]:
    """Return the paths from ``folder`` in a list of git's, with a zero byte after each."""
    start = os.fsencode(f"{folder}/")
    return {os.fsdecode(name.removeprefix(start)) for name in printed.split(b"\0") if name.startswith(start)}


def _folder(area: Area) -> str:
    return area.root.relative_to(area.project).as_posix()
