"""Submit one function many times, as one job array, and hold the results together."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, TypeVar, overload

from helpers.errors import InvalidRequest
from helpers.runtime.description import Description, read_description
from helpers.runtime.element import describe_element, element_folder
from helpers.runtime.run_folder import RunFolder
from helpers.runtime.status import read_ledger, record_attempt
from helpers.submission.job import Job
from helpers.submission.sweep import call
from helpers.submission.watcher import watcher

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.submission.clusters import Queue

R = TypeVar("R")


class JobArray(Sequence[Job[R]]):
    """The jobs of an array, in the order of the items.

    Each is a :class:`Job` of its own: its failure hides no other.

    Args:
        folder: The array's run folder.
        jobs: Its elements.
    """

    def __init__(self, folder: Path, jobs: list[Job[R]]) -> None:
        self.folder = folder
        self._jobs = jobs

    @overload
    def __getitem__(self, index: int) -> Job[R]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job[R]]: ...
    def __getitem__(self, index: int | slice) -> Job[R] | list[Job[R]]:
        return self._jobs[index]

    def __len__(self) -> int:
        return len(self._jobs)

    def results(self, timeout: float | None = None) -> list[R]:
        """Wait for all and return their values, in the order of the items.

        Raises:
            Exception: Of the first element that failed, once all have ended.
            TimeoutError: If they have not ended within ``timeout`` seconds.
        """
        pending = wait(self._jobs, timeout=timeout).not_done
        if pending:
            raise TimeoutError(f"{len(pending)} of {len(self)} elements have not ended within {timeout} s")
        return [job.result() for job in self._jobs]

    def failed(self) -> list[Job[R]]:
        """Return the elements that have ended without success so far."""
        return [job for job in self._jobs if job.done() and job.exception() is not None]

    def cancel(self) -> None:
        """Ask for the end of all elements that have not ended."""
        for job in self._jobs:
            job.cancel()

    def rerun_failed(self) -> JobArray[R] | None:
        """Submit the calls of the failed elements again, as a new array; None where none has failed."""
        from helpers.runtime.call import load_call
        from helpers.submission.submit import submit_array

        calls = [load_call(RunFolder(job.folder)) for job in self.failed()]
        if not calls:
            return None
        array = read_description(RunFolder(self.folder))
        items = [call(*one.args, **one.kwargs) for one in calls]
        return submit_array(calls[0].function, items, max_running=array.max_running, **array.settings)

    def table(self) -> Table:
        """Return a row for each element: its arguments, state, result and cause of failure."""
        return Table([_row(number, job) for number, job in enumerate(self._jobs)])

    def __repr__(self) -> str:
        return f"<JobArray of {len(self)} in {self.folder}>"


class Table(list[dict[str, Any]]):
    """Rows that print as a table."""

    def __str__(self) -> str:
        if not self:
            return "(no elements)"
        texts = [{name: str(value) for name, value in row.items()} for row in self]
        widths = {name: max(len(name), *(len(row[name]) for row in texts)) for name in texts[0]}
        lines = [{name: name for name in widths}, *texts]
        return "\n".join("  ".join(row[name].ljust(widths[name]) for name in widths).rstrip() for row in lines)


def _row(number: int, job: Job[Any]) -> dict[str, Any]:
    ended = job.done()
    error = job.exception() if ended else None
    return {
        "element": number,
        "job": job.id,
        "arguments": ", ".join(job.description.arguments),
        "state": str(job.state_by_folder),
        "result": job.result() if ended and error is None else "",
        "cause": job.reason if error is not None else "",
    }


def watch_array(
    array: RunFolder,
    description: Description,
    queue: Queue | None,
    ids: Sequence[str],
    *,
    may_have_ended: bool = False,
) -> JobArray[Any]:
    """Return the jobs of an array that has been queued under these ids, one for each element."""
    jobs = []
    for index, job_id in enumerate(ids):
        folder = element_folder(array, index)
        describe = functools.partial(describe_element, description, index)
        job: Job[Any] = Job(folder.path, queue, job_id, describe=describe)
        watcher.watch(job, may_have_ended=may_have_ended)
        jobs.append(job)
    return JobArray(array.path, jobs)


def attach_array(job: str | Path) -> JobArray[Any]:
    """Return the jobs of an array, by one of the scheduler's ids for it or its run folder, from any process.

    Raises:
        InvalidRequest: If there is no such array here.
    """
    from helpers.submission.attach import find_folder
    from helpers.submission.clusters import queue_of

    array = RunFolder(find_folder(job))
    description = read_description(array)
    if not description.elements:
        raise InvalidRequest(f"{job} is one job, not an array.", hint=f'attach("{job}")')
    ids: list[str] = []
    for line in read_ledger(array):
        ids += [f"{line['job_id']}_{number}" for number in range(line.get("elements", 0))]
    return watch_array(array, description, queue_of(description), ids, may_have_ended=True)


def record_array(array: RunFolder, chunks: Iterable[tuple[str, int]]) -> list[str]:
    """Note under which ids the elements are queued, and return the id of each."""
    ids = []
    for job_id, elements in chunks:
        record_attempt(array, durable=False, event="queued", attempt=0, job_id=job_id, elements=elements)
        ids += [f"{job_id}_{number}" for number in range(elements)]
    return ids
