"""Submit one function many times, as one job array, and hold the results together."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, TypeVar, overload

from helpers.errors import ClusterUnreachable, InvalidRequest
from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.element import ELEMENTS, describe_element, element_folder
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State
from helpers.submission.jobs.array_status import ids_of_elements, parts_of
from helpers.submission.jobs.interruption import interruption_explained
from helpers.submission.jobs.job import Job, cancel_jobs
from helpers.submission.jobs.watcher import watcher
from helpers.submission.sweep import call

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.submission.clusters.choice import Queue

R = TypeVar("R")


class JobArray(Sequence[Job[R]]):
    """The jobs of an array, in the order of the items.

    Each is a :class:`Job` of its own: its failure hides no other.

    Args:
        folder: The array's run folder.
        jobs: Its elements; of a large array each is made when it is first asked for.
    """

    def __init__(self, folder: Path, jobs: Sequence[Job[R]]) -> None:
        self.folder = folder
        self._jobs = jobs

    @overload
    def __getitem__(self, index: int) -> Job[R]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job[R]]: ...
    def __getitem__(self, index: int | slice) -> Job[R] | list[Job[R]]:
        return self._jobs[index] if isinstance(index, int) else list(self._jobs[index])

    def __len__(self) -> int:
        return len(self._jobs)

    def results(self, timeout: float | None = None) -> list[R]:
        """Wait for all and return their values, in the order of the items; Ctrl-C says what goes on.

        Raises:
            Exception: Of the first element that failed, once all have ended.
            TimeoutError: If they have not ended within ``timeout`` seconds.
        """
        with interruption_explained():
            pending = wait(self._jobs, timeout=timeout).not_done
        if pending:
            raise TimeoutError(f"{len(pending)} of {len(self)} elements have not ended within {timeout} s")
        error = next((error for job in self._jobs if (error := job.exception()) is not None), None)
        if error is not None:
            raise error  # here, and not in each future: their frames say nothing of the job
        return [job.result() for job in self._jobs]

    def failed(self) -> list[Job[R]]:
        """Return the elements that have ended without success so far."""
        return [job for job in self._jobs if job.done() and job.exception() is not None]

    def cancel(self) -> None:
        """Ask for the end of all elements that have not ended."""
        cancel_jobs(self._jobs)

    def rerun_failed(self) -> JobArray[R] | None:
        """Submit the calls of the failed elements again, as a new array of the code as it is now; None without any."""
        from helpers.runtime.rank.call import load_call
        from helpers.submission.submit import submit_array

        failed = self.failed()
        if not failed:
            return None
        array = read_description(RunFolder(self.folder))
        with _also_found(array.sys_path):
            calls = [load_call(RunFolder(job.folder)) for job in failed]
            items = [call(*one.args, **one.kwargs) for one in calls]
            return submit_array(calls[0].function, items, max_running=array.max_running, **array.settings)

    def table(self) -> Table:
        """Return a row for each element: its arguments, state, result and cause of failure."""
        return Table([_row(number, job) for number, job in enumerate(self._jobs)])

    def __repr__(self) -> str:
        return f"<JobArray of {len(self)} in {self.folder}>"


@contextlib.contextmanager
def _also_found(search_path: Sequence[str]) -> Iterator[None]:
    """Find modules also where the submission of a run found them: this may be another process, with another path."""
    before = list(sys.path)
    sys.path += [entry for entry in search_path if entry not in before]
    try:
        yield
    finally:
        sys.path[:] = before


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
        "state": str(job.state_by_folder) if ended else _state_now(job),
        "result": job.result() if ended and error is None else "",
        "cause": job.reason if error is not None else "",
    }


def _state_now(job: Job[Any]) -> str:
    """Return the state of a job that has not ended by its own word, which the scheduler may have ended."""
    own = str(job.state_by_folder)
    try:
        state = State(job.state)
    except ClusterUnreachable:
        return own
    return str(state) if state.is_final else own


class Elements(Sequence[Job[Any]]):
    """The jobs of a queued array, each made when somebody asks for it: a thousand futures cost as much as ``sbatch``.

    Args:
        array: The array's files.
        description: What was submitted.
        queue: Where it runs.
        parts: Under which ids it is queued, and how many elements each has.
    """

    def __init__(
        self,
        array: RunFolder,
        description: Description,
        queue: Queue | None,
        parts: Iterable[tuple[str, int]],
    ) -> None:
        self.ids = ids_of_elements(parts)
        self.name = description.name
        self.queue = queue
        self._array = array
        self._description = description
        self._lock = threading.RLock()
        self._made: list[Job[Any] | None] = [None] * len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Job[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job[Any]]: ...
    def __getitem__(self, index: int | slice) -> Job[Any] | list[Job[Any]]:
        numbers = range(len(self.ids))[index]
        return self._job(numbers) if isinstance(numbers, int) else [self._job(number) for number in numbers]

    def __len__(self) -> int:
        return len(self.ids)

    def make_begun(self) -> None:
        """Make the jobs of those elements that have a folder by now: one look at the disk for all."""
        try:
            names = os.listdir(self._array.path / ELEMENTS)  # noqa: PTH208 -- a thousand of them, often
        except FileNotFoundError:
            return
        for name in names:
            if name.isdigit() and int(name) < len(self):
                self._job(int(name))

    def unmade(self) -> dict[str, int]:
        """Return the number of each element that nobody has asked for and that has not begun, by its id."""
        return {job_id: number for number, job_id in enumerate(self.ids) if self._made[number] is None}

    def _job(self, number: int) -> Job[Any]:
        made = self._made[number]
        if made is not None:
            return made
        with self._lock:
            made = self._made[number]
            if made is None:
                folder = element_folder(self._array, number)
                describe = functools.partial(describe_element, self._description, number)
                made = Job(folder.path, self.queue, self.ids[number], describe=describe)
                watcher.watch(made, may_have_ended=True)
                self._made[number] = made
            return made


def watch_array(
    array: RunFolder,
    description: Description,
    queue: Queue | None,
    parts: Iterable[tuple[str, int]],
) -> JobArray[Any]:
    """Return the jobs of an array that has been queued in these parts: the id of each, and how many elements it has."""
    elements = Elements(array, description, queue, parts)
    watcher.watch_elements(elements)
    return JobArray(array.path, elements)


def attach_array(job: str | int | Path) -> JobArray[Any]:
    """Return the jobs of an array, by one of the scheduler's ids for it or its run folder, from any process.

    Raises:
        InvalidRequest: If there is no such array here.
    """
    from helpers.submission.clusters.choice import queue_of
    from helpers.submission.jobs.attach import find_folder

    array = RunFolder(find_folder(job))
    description = read_description(array)
    if not description.elements:
        raise InvalidRequest(f"{job} is one job, not an array.", hint=f'attach("{job}")')
    return watch_array(array, description, queue_of(description), parts_of(array))
