"""Ask git what a project is: its commit, and what differs from it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S = 10
_WITHOUT_SECRETS = (":(top)", ":(top,exclude,glob)**/.env")  # also where somebody has added it to git
_OF_A_REPOSITORY = {"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
                    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX"}  # fmt: skip


def without_other_repository(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what git sets while it runs a hook: our questions would go to that repository."""
    return {name: value for name, value in environment.items() if name not in _OF_A_REPOSITORY}


@dataclass(frozen=True, kw_only=True)
class GitState:
    """What git says of a project.

    Args:
        commit: What is checked out; None without git or without a commit.
        branch: Its name; empty for a detached HEAD, None without git.
        difference: Of the tracked files from the commit, as ``git diff`` prints it.
    """

    commit: str | None = None
    branch: str | None = None
    difference: bytes = b""

    @property
    def edited(self) -> bool:
        """Whether tracked files differ from the commit."""
        return bool(self.difference)

    @property
    def changes(self) -> str | None:
        """A hash of the difference; None where there is none."""
        return blake2b(self.difference, digest_size=8).hexdigest() if self.difference else None


def read_git_state(root: str) -> GitState:
    """Ask git for commit, branch and difference; what it does not tell in time is left out."""
    status = run_git(root, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if status is None:
        return GitState()
    lines = status.decode(errors="replace").splitlines()
    facts = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = facts.get("branch.oid"), facts.get("branch.head")
    if commit in {None, "(initial)"}:
        return GitState(branch=branch)
    edited = any(not line.startswith("#") for line in lines)
    difference = (run_git(root, "diff", "--binary", "HEAD", "--", *_WITHOUT_SECRETS) or b"") if edited else b""
    return GitState(commit=commit, branch="" if branch == "(detached)" else branch, difference=difference)


def run_git(folder: str, *arguments: str, timeout_s: float = _TIMEOUT_S) -> bytes | None:
    """Return what a git command printed; None where there is no git, no repository or no answer in time."""
    command = ["git", "--no-optional-locks", "-C", folder, *arguments]
    environment = without_other_repository(os.environ)
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
