"""Say why git tells nothing of a project that lies in a repository: its run records no commit."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from helpers.runtime.git import without_other_repository
from helpers.submission.source.complaint import read_complaint

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 10


def say_what_git_withholds(root: Path) -> None:
    """Print git's reason, and the line that mends it; nothing where the project is in no repository."""
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return
    reason, cure = read_complaint(_refusal(root))
    hint = f"\n  hint: {cure}" if cure else ""
    print(f"helpers: the run records no commit of {root}: {reason}{hint}", file=sys.stderr)


def _refusal(root: Path) -> list[str]:
    """Return what git says instead of an answer."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--git-dir"],
            env=without_other_repository(os.environ) | {"LC_ALL": "C"},  # its complaint is read here
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return ["git is not installed here"]
    except (OSError, subprocess.TimeoutExpired) as error:
        return [str(error)]
    return done.stderr.strip().splitlines() or ["git did not list its files"]
