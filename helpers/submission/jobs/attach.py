"""Take up a run again: from another process, another day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.config import runs_folder
from helpers.errors import InvalidRequest
from helpers.runtime.run.description import read_description
from helpers.runtime.run.element import describe_element, element_folder, make_element
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.pointer import find_run
from helpers.runtime.run.status import read_ledger
from helpers.submission.clusters.choice import queue_of
from helpers.submission.jobs.array_status import id_of, ids_of_elements, parts_of
from helpers.submission.jobs.job import Job
from helpers.submission.jobs.watcher import watcher


def attach(job: str | int | Path) -> Job[Any]:
    """Return the job of an id or of a run folder, from any process, also long after its end.

    Args:
        job: The scheduler's id (``"4711"``, ``4711``, ``"local-1234"``), or the path of a run folder.

    Raises:
        InvalidRequest: If there is no such run here, or it is an array.
    """
    folder = find_folder(job)
    description = read_description(RunFolder(folder))
    if description.elements:
        raise InvalidRequest(
            f"{job} is an array of {len(description.elements)} jobs.",
            hint=f'attach_array("{job}"), or one of them: attach("{ids_of_elements(parts_of(RunFolder(folder)))[0]}")',
        )
    ledger = read_ledger(RunFolder(folder))
    first_id = ledger[0]["job_id"] if ledger else id_of(RunFolder(folder)) or str(job)
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


def find_folder(job: str | int | Path) -> Path:
    """Return the run folder of a scheduler's id, or of itself.

    Raises:
        InvalidRequest: If there is no such run here, or what it says of itself cannot be read.
    """
    if not isinstance(job, str | int | Path):
        raise InvalidRequest(f"A job is named by its id or its run folder; got {job!r}.", hint='attach("4711")')
    folder = Path(str(job)).expanduser().absolute()
    if _is_run(folder):
        return _readable(folder)
    runs = runs_folder(Path.cwd())
    found = find_run(runs, str(job)) or _find_element(runs, str(job))
    if found is None or not _is_run(found):
        raise InvalidRequest(
            f"There is no run {str(job)!r} in {runs}.", hint="helpers status lists the runs of this project"
        )
    return _readable(found)


def _readable(folder: Path) -> Path:
    run = RunFolder(folder)
    try:
        read_description(run)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:  # it may hold any JSON
        raise InvalidRequest(
            f"{run.description} cannot be read: {error}", hint=f"what the job has printed is in {run.logs}"
        ) from error
    return folder


def _find_element(runs: Path, job_id: str) -> Path | None:
    """Return the folder of an array's element that has not begun, which is made; None where there is no such array."""
    folder = find_run(runs, job_id.rpartition("_")[0]) if "_" in job_id else None
    if folder is None or not _is_run(folder):
        return None
    array = RunFolder(folder)
    ids = ids_of_elements(parts_of(array))
    if job_id not in ids:
        return None
    number = ids.index(job_id)
    element = element_folder(array, number)
    make_element(element, describe_element(read_description(array), number))
    return element.path


def _is_run(folder: Path) -> bool:
    try:
        return (folder / "run.json").exists()
    except PermissionError as error:
        raise InvalidRequest(
            f"{folder} is another user's, and not shared.",
            hint='whose it is can set share = "group" for the next: helpers config explain share',
        ) from error
