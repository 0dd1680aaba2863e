"""A project in git, and what a submission takes of it."""

import subprocess
import time
from pathlib import Path

from helpers.submission.source import project_files
from helpers.submission.source.snapshot import Taken, take_source

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *IDENTITY, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def take(folder: Path) -> Taken:
    taken = take_source(folder, folder / "runs", wanted=True)
    assert taken is not None
    return taken


def settle(folder: Path) -> Taken:
    """Submit until this process knows the project, and all of it is older than the last look."""
    take(folder)  # makes the folder of runs
    time.sleep(2 * project_files._RACY_S)
    known = take(folder)
    assert take(folder) is known
    return known


def copy_of(folder: Path) -> Path:
    found = take(folder).source.snapshot
    assert found is not None
    return Path(found)


def snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs" / ".snapshots").iterdir())
