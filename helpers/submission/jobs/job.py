"""A run as its caller holds it: a Future that ends when the run does."""

from __future__ import annotations

import functools
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.element import make_element, script_of
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, Status, read_ledger, read_status
from helpers.submission.jobs import logs as run_logs
from helpers.submission.jobs.endings import exception_of
from helpers.submission.jobs.glance import glance
from helpers.submission.jobs.interruption import interruption_explained
from helpers.submission.jobs.reasons import why_it_waits
from helpers.submission.jobs.sentences import in_brief
from helpers.submission.jobs.value import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

    from helpers.submission.clusters.choice import Queue

R = TypeVar("R")
_FOLLOW_POLL_S = 0.2


class Job(Future[R]):
    """A run, from its submission to its end, over all its attempts.

    It is a :class:`concurrent.futures.Future`, so ``wait``, ``as_completed`` and ``add_done_callback`` work.
    It follows the *run*: a requeue or a successor with another id is still the same job. The end of the caller
    never ends it; pickling one stores its run folder.

    Args:
        folder: The run folder.
        cluster: Where it runs.
        job_id: The scheduler's id at submission.
        describe: Tells what was submitted, where the folder cannot yet: an element of an array makes its own when
            it starts.
    """

    def __init__(
        self, folder: Path, cluster: Queue | None, job_id: str, *, describe: Callable[[], Description] | None = None
    ) -> None:
        super().__init__()
        self.folder = folder
        self._files = RunFolder(folder)
        self._cluster = cluster
        self._first_id = job_id
        self._describe = describe
        if describe is None:
            self.description = read_description(self._files)
        self._reason = ""
        self._ended: Status | None = None

    @property
    def id(self) -> str:
        """The scheduler's id of the newest attempt."""
        ledger = read_ledger(self._files)
        return ledger[-1]["job_id"] if ledger else self._first_id

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.description.name

    @functools.cached_property
    def description(self) -> Description:
        """What was submitted."""
        return read_description(self._files) if self._describe is None else self._describe()

    @property
    def state(self) -> str:
        """The state now, by Slurm's words: ``PENDING``, ``RUNNING``, ``COMPLETED``, ``FAILED``, …."""
        return str(self._look().state)

    @property
    def state_by_folder(self) -> State:
        """The state as the run itself has last told it, without asking the scheduler."""
        status = read_status(self._files)
        return State.PENDING if status is None else status.state

    @property
    def reason(self) -> str:
        """Why it waits, as a sentence after Slurm's word for it; or why it ended, as far as it is known."""
        status = self._look()
        if status.ending is not None and status.state.is_final:
            return in_brief(status.ending)
        return why_it_waits(self._reason, self.id) if status.state is State.PENDING else self._reason

    @property
    def attempt(self) -> int:
        """The number of the newest attempt, from 0."""
        status = read_status(self._files)
        return status.attempt if status else 0

    @property
    def script(self) -> str:
        """The batch script, as it was handed to the scheduler."""
        return script_of(self._files).read_text(encoding="utf-8")

    def running(self) -> bool:
        """Say whether it runs now."""
        return self.state == State.RUNNING

    def cancelled(self) -> bool:
        """Say whether it ended because somebody cancelled it."""
        return self.done() and self._look().state is State.CANCELLED

    def cancel(self) -> bool:
        """Ask the scheduler to end the job, also a running one; the future ends when it has ended.

        Returns:
            False if the job had ended before.
        """
        if self.done() or self._cluster is None:
            return False
        cancel_jobs([self])
        return True

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end and return rank 0's value; Ctrl-C ends the wait and says what goes on.

        Raises:
            Exception: What the function raised, or why the job has no result.
            TimeoutError: If it has not ended within ``timeout`` seconds.
        """
        with interruption_explained():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return why there is no result; None where there is one."""
        with interruption_explained():
            return super().exception(timeout)

    def rerun(self) -> Job[R]:
        """Submit the same call once more: a new run, from the start, with the same code, resources and script.

        Raises:
            InvalidRequest: If it ran in its caller's own process, or belongs to another cluster.
        """
        from helpers.submission.jobs.again import rerun

        make_element(self._files, self.description)
        return rerun(self.folder)

    def resume(self) -> Job[R]:
        """Go on with the run, once it has ended: same run folder, new id, from its newest checkpoint.

        Returns:
            A job of the same run; this one has ended.

        Raises:
            InvalidRequest: If it has not ended, has succeeded, or has saved nothing to go on from.
        """
        from helpers.submission.jobs.again import resume

        make_element(self._files, self.description)
        return resume(self.folder)

    def results(self, timeout: float | None = None) -> list[R]:
        """Wait for the end and return every rank's value, in the order of ranks.

        Raises:
            Exception: As :meth:`result` does.
        """
        self.result(timeout)
        return [value_of(self._files, self.id, self.description, rank) for rank in range(self.description.processes)]

    def logs(self, *, rank: int | None = None, attempt: int | None = None) -> str:
        """Return what was printed so far: by the batch script and all ranks, or by one; in all attempts, or in one.

        Raises:
            InvalidRequest: If the job has no such rank.
        """
        run_logs.check_rank(self.description, rank)
        return run_logs.read_logs(self._files, rank=rank, attempt=attempt)

    def follow(self, *, rank: int | None = 0, attempt: int | None = None) -> Iterator[str]:
        """Yield what ``rank`` prints, as it comes, until the run ends; None: all ranks.

        Args:
            rank: Of which process; None for all, and the batch script.
            attempt: Of this attempt alone, until it ends; None for all.

        Raises:
            InvalidRequest: If the job has no such rank.
        """
        run_logs.check_rank(self.description, rank)
        follower = run_logs.Follower(self._files, rank=rank, attempt=attempt)
        while True:
            ended = self.done() or (attempt is not None and run_logs.attempt_ended(self._files, attempt))
            yield from follower.new_text()
            if ended:
                return
            time.sleep(_FOLLOW_POLL_S)

    def __await__(self) -> Generator[Any, None, R]:
        """Wait in a coroutine; giving up there does not cancel the job.

        A job that was cancelled raises its JobCancelled; ``asyncio.wrap_future`` would make of it a
        cancellation of the coroutine itself.
        """
        import asyncio

        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def wake_up(_: Future[R]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        self.add_done_callback(wake_up)
        yield from ended.wait().__await__()
        return self.result()

    def __reduce__(self) -> tuple[Any, ...]:
        from helpers.submission.jobs.attach import attach

        return attach, (str(self.folder),)

    def __repr__(self) -> str:
        return f"<Job {self._first_id} {self.name} in {self.folder}>"

    def _look(self) -> Status:
        status = read_status(self._files)
        if status is not None and (status.state.is_final or self._cluster is None):
            return status
        if self._ended is not None:  # what could not be written down: the disk is full, the folder is gone
            return self._ended
        if self._cluster is None:
            return Status(state=State.RUNNING, job_id=self._first_id, attempt=0)
        seen = glance.at(self._cluster, self.id)
        self._reason = seen.reason if seen else ""
        status = read_status(self._files) or status  # it may have ended between the two questions
        if seen is None or (status is not None and status.state.is_final):
            return status or Status(state=State.PENDING, job_id=self._first_id, attempt=0)
        return Status(state=seen.state, job_id=self.id, attempt=status.attempt if status else 0)

    def _end(self, status: Status) -> None:
        """End the future; called by the watcher, once."""
        value: Any = None
        error: BaseException | None = None
        try:
            if status.state is State.COMPLETED:
                value = value_of(self._files, status.job_id, self.description, 0)
            else:
                error = exception_of(self._files, self.description, status)
        except BaseException as broken:  # noqa: BLE001 -- unpickling runs the user's code
            error = broken
        self._ended = status
        if error is None:
            self.set_result(value)
        else:
            self.set_exception(error)


def cancel_jobs(jobs: Iterable[Job[Any]]) -> None:
    """Ask for the end of jobs that have not ended, with one question for all that run at one place."""
    places: dict[tuple[type, str], tuple[Queue, dict[str, RunFolder]]] = {}
    for job in jobs:
        cluster = job._cluster  # noqa: SLF001 -- of this module
        if cluster is not None and not job.done():
            files = job._files  # noqa: SLF001
            make_element(files, job.description)
            places.setdefault((type(cluster), cluster.name), (cluster, {}))[1][job.id] = files
    for cluster, runs in places.values():
        cluster.cancel(runs)
    glance.forget()
