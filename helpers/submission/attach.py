"""Take up a run again: from another process, another day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.config import runs_folder
from helpers.errors import InvalidRequest
from helpers.runtime.description import read_description
from helpers.runtime.pointer import find_run
from helpers.runtime.run_folder import RunFolder
from helpers.runtime.status import read_ledger
from helpers.submission.clusters import queue_of
from helpers.submission.job import Job
from helpers.submission.watcher import watcher


def attach(job: str | Path) -> Job[Any]:
    """Return the job of an id or of a run folder, from any process, also long after its end.

    Args:
        job: The scheduler's id (``"4711"``, ``"local-1234"``), or the path of a run folder.

    Raises:
        InvalidRequest: If there is no such run here.
    """
    folder = find_folder(job)
    description = read_description(RunFolder(folder))
    ledger = read_ledger(RunFolder(folder))
    first_id = ledger[0]["job_id"] if ledger else str(job)
    attached: Job[Any] = Job(folder, queue_of(description), first_id)
    watcher.watch(attached, may_have_ended=True)
    return attached


def all_runs(start: Path) -> list[Path]:
    """Return the run folders of the project around ``start``, oldest first."""
    found = runs_folder(start).glob("*/*/run.json")
    return [path.parent for path in sorted(found, key=_age)]


def _age(description: Path) -> tuple[str, int]:
    """Order runs by their id's second, and within it by the file's time."""
    second = description.parent.name.rpartition("-")[0]
    return second, description.stat().st_mtime_ns


def find_folder(job: str | Path) -> Path:
    """Return the run folder of a scheduler's id, or of itself.

    Raises:
        InvalidRequest: If there is no such run here.
    """
    folder = Path(job).expanduser().absolute()
    if _is_run(folder):
        return folder
    runs = runs_folder(Path.cwd())
    found = find_run(runs, str(job))
    if found is None or not _is_run(found):
        raise InvalidRequest(
            f"There is no run {str(job)!r} in {runs}.", hint="helpers status lists the runs of this project"
        )
    return found


def _is_run(folder: Path) -> bool:
    try:
        return (folder / "run.json").exists()
    except PermissionError as error:
        raise InvalidRequest(
            f"{folder} is another user's, and not shared.",
            hint='whose it is can set share = "group" for the next: helpers config explain share',
        ) from error
