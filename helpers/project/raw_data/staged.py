"""Read what a commit would do: from git's index, also while git runs a hook for a part of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.git import without_other_repository
from helpers.runtime.raw_data.pointer import read_pointer
from helpers.runtime.raw_data.tracked import names_below

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 120


@dataclass(frozen=True, kw_only=True)
class StagedChange:
    """One line of ``git diff --cached --name-status``.

    Args:
        status: ``A`` added, ``M`` changed, ``D`` deleted, ``R`` renamed, ``C`` copied, ``T`` another kind of file.
        path: The file, from the project; of a rename or copy, what it was.
        target: What a rename or copy makes of it; else the same path.
    """

    status: str
    path: str
    target: str


def staged_changes(project: Path) -> list[StagedChange]:
    """Return what the commit would change in the project, renames seen as such.

    Raises:
        InvalidRequest: If git does not tell.
    """
    words = git(project, "diff", "--cached", "--name-status", "-z", "-M", "--relative").split(b"\0")
    fields = iter(os.fsdecode(word) for word in words)
    changes = []
    for status in fields:
        if not status:
            continue
        path = next(fields)
        target = next(fields) if status[0] in "RC" else path
        changes.append(StagedChange(status=status[0], path=path, target=target))
    return changes


def staged_file(project: Path, path: str) -> bytes | None:
    """Return a file as the commit would have it; None where it would not have it."""
    try:
        return git(project, "show", f":./{path}")
    except InvalidRequest:
        return None


def staged_names(project: Path, folder: str) -> set[str]:
    """Return the files that git would have in a folder after the commit, from that folder.

    Raises:
        InvalidRequest: If git does not tell.
    """
    return names_below(git(project, "ls-files", "-z", "--", folder), folder)


def staged_content(project: Path, path: str) -> tuple[int, str] | None:
    """Return size and sha256 of a file as the commit would have it, or as the pointer of git-lfs names them."""
    data = staged_file(project, path)
    if data is None:
        return None
    return read_pointer(data) or (len(data), hashlib.sha256(data).hexdigest())


def git(project: Path, *arguments: str) -> bytes:
    """Return what a git command prints in the project, by the index that a commit in progress uses.

    Raises:
        InvalidRequest: With git's own words.
    """
    environment = without_other_repository(os.environ)
    if index := os.environ.get("GIT_INDEX_FILE"):  # what is about to be committed
        environment["GIT_INDEX_FILE"] = str(Path(index).absolute())
    return _run(["git", "--no-optional-locks", "-C", str(project), *arguments], environment)


def _run(command: Sequence[str], environment: dict[str, str]) -> bytes:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidRequest(f"git does not answer: {error}.", hint="git status") from error
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()
        raise InvalidRequest(f"git says: {words or f'exit code {done.returncode}'}.", hint="git status")
    return done.stdout
