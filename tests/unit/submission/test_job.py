"""A job is a Future of the standard library, whatever waits for it."""

import asyncio
import concurrent.futures
import pickle
from pathlib import Path

import pytest

from helpers import Job, JobCancelled, attach, submit
from helpers.runtime.call import save_result
from helpers.runtime.status import Ending, State, Status, record_attempt, write_status
from tests.unit.submission import functions

PATIENCE_S = 60


@pytest.fixture
def job(project: Path) -> Job[int]:
    """A job that has been queued and that no cluster knows of; tests end it by ``end``."""
    preview = submit(functions.add, 1, 2, cluster="inline")
    queued: Job[int] = Job(preview.folder, None, "4711")
    queued._files.status.unlink()
    return queued


def end(job: Job[int], state: State = State.COMPLETED, cause: str = "returned") -> None:
    status = Status(state=state, job_id="4711", attempt=0, ending=Ending(cause=cause))
    write_status(job._files, status)
    job._end(status)


def test_wait_and_as_completed_take_a_job(job: Job[int]) -> None:
    """Code that was written for a pool goes on working."""
    pending = concurrent.futures.wait([job], timeout=0).not_done
    end(job)
    assert (pending, list(concurrent.futures.as_completed([job], timeout=5))) == ({job}, [job])


def test_a_callback_is_called_with_the_job(job: Job[int]) -> None:
    """Once, when it ends."""
    called = []
    job.add_done_callback(called.append)
    end(job)
    assert called == [job]


def test_result_with_a_timeout_leaves_the_job_alone(job: Job[int]) -> None:
    """It raises TimeoutError, which no ending is."""
    with pytest.raises(TimeoutError):
        job.result(timeout=0.01)
    assert not job.done()


def test_a_job_can_be_awaited(job: Job[int]) -> None:
    """Its end comes from another thread."""

    async def wait() -> int:
        asyncio.get_running_loop().run_in_executor(None, end, job)
        return await job

    assert asyncio.run(wait()) == 3


def test_giving_up_an_await_does_not_cancel_the_job(job: Job[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """``asyncio.wait_for(job, 1)`` would otherwise end three days of training."""
    cancelled = []
    monkeypatch.setattr(Job, "cancel", cancelled.append)

    async def wait() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(wrapped()), 0.05)

    async def wrapped() -> int:
        return await job

    asyncio.run(wait())
    end(job)
    assert (cancelled, job.result()) == ([], 3)


def test_awaiting_a_cancelled_job_raises_its_own_error(job: Job[int]) -> None:
    """Asyncio's CancelledError would look as if the waiting coroutine had been cancelled, and say nothing."""

    async def wait() -> int:
        return await job

    end(job, State.CANCELLED, "cancelled")
    with pytest.raises(JobCancelled, match="4711"):
        asyncio.run(wait())


def test_a_cancelled_job_is_cancelled_and_done(job: Job[int]) -> None:
    """As a Future that was cancelled."""
    end(job, State.CANCELLED, "cancelled")
    assert (job.cancelled(), job.done(), job.cancel()) == (True, True, False)


def test_a_result_that_cannot_be_loaded_here_is_the_error(job: Job[int]) -> None:
    """The job ended well; a file that is missing must not leave its caller waiting."""
    job._files.result(0).unlink()
    end(job)
    assert isinstance(job.exception(), FileNotFoundError)


def test_an_ending_that_cannot_be_read_is_the_error(job: Job[int]) -> None:
    """Whatever goes wrong while a job is ended, its caller hears of it."""
    job._files.private.chmod(0o777)
    end(job, State.FAILED, "raised")
    assert job.exception() is not None


def test_a_pickled_job_is_attached_again(project: Path) -> None:
    """It holds the path of its run folder, no thread and no lock."""
    job = submit(functions.add, 1, 2, cluster="inline")
    again = pickle.loads(pickle.dumps(job))
    assert (again.folder, again.result(PATIENCE_S)) == (job.folder, 3)


def test_the_id_is_that_of_the_newest_attempt(job: Job[int]) -> None:
    """A successor has another id; it is the same run."""
    record_attempt(job._files, event="queued", attempt=1, job_id="4712", step=None)
    assert job.id == "4712"


def test_results_are_those_of_every_rank_in_order(job: Job[int]) -> None:
    """Rank 10 is not between 1 and 2."""
    object.__setattr__(job.description, "processes", 11)
    for rank in range(11):
        save_result(job._files, rank, rank)
    end(job)
    assert job.results() == list(range(11))


def test_attach_names_what_it_did_not_find(project: Path) -> None:
    """And where it looked: the project may be another one."""
    with pytest.raises(ValueError, match=r"no run '99' in .*runs"):
        attach("99")
