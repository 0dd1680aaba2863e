"""Ask git, and say in one sentence what it does not do."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.git import without_other_repository
from helpers.submission.source.complaint import read_complaint

if TYPE_CHECKING:
    from pathlib import Path

_FOREIGN_OWNER = "dubious ownership"  # git's words for a repository whose settings and hooks are somebody else's


def git(folder: Path, *arguments: str, settings: Path | None = None) -> str:
    """Return what git prints in ``folder``.

    Args:
        folder: Where it runs.
        arguments: Its command.
        settings: A file in place of the user's own settings, for the processes that git starts, too; None for those.

    Raises:
        InvalidRequest: With git's complaint, if it fails; if it is not installed.
    """
    command = ["git", *arguments]
    environment = without_other_repository(os.environ)
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}  # its complaints are read here
    if settings is not None:
        environment["GIT_CONFIG_GLOBAL"] = str(settings)
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise InvalidRequest("git is not installed here.", hint="module load git, or apt-get install git") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        reason, hint = read_complaint(said)
        raise InvalidRequest(f"git {_command_of(arguments)} did not work in {folder}: {reason}.", hint=hint)
    return done.stdout.strip()


def answer(folder: Path, *arguments: str) -> str | None:
    """Return what git prints in ``folder``; None if it fails."""
    try:
        return git(folder, *arguments)
    except InvalidRequest:
        return None


def is_under_git(project: Path) -> bool:
    """Say whether a folder is in a repository.

    Raises:
        InvalidRequest: If it is in one of somebody else's, which git does not read.
    """
    try:
        git(project, "rev-parse", "--is-inside-work-tree")
    except InvalidRequest as error:
        if _FOREIGN_OWNER in error.message:
            raise
        return False
    return True


def _command_of(arguments: tuple[str, ...]) -> str:
    """Return git's command: ``commit`` of ``-c name=value commit``."""
    return next(word for word in arguments if not word.startswith("-") and "=" not in word)


def is_clean(project: Path) -> bool:
    """Say whether every file below ``project`` is as git has it; files that git does not know count."""
    return git(project, "status", "--porcelain", "--", ".") == ""
