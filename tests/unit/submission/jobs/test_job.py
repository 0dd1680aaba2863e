"""A job is a Future of the standard library, whatever waits for it."""

import asyncio
import concurrent.futures
import pickle
from pathlib import Path
from typing import Any

import pytest

from helpers import Executor, Job, JobCancelled, attach, errors, submit
from helpers.runtime.rank.call import save_result
from helpers.runtime.run.status import Ending, State, Status, record_attempt, write_status
from tests.unit.submission import functions

PATIENCE_S = 240


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
    assert (pending, list(concurrent.futures.as_completed([job], timeout=PATIENCE_S))) == ({job}, [job])


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


def test_a_result_that_is_gone_is_the_error(job: Job[int]) -> None:
    """The job ended well; a file that is missing must not leave its caller waiting."""
    job._files.result(0).unlink()
    end(job)
    error = job.exception()
    assert isinstance(error, errors.ResultNotLoaded)
    assert isinstance(error.__cause__, FileNotFoundError)


def raise_error(error: Exception) -> None:
    raise error


class Raises:
    """Pickles well, and raises this where it is loaded."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return raise_error, (self.error,)


UNLOADABLE = [
    (ModuleNotFoundError("No module named 'only_in_job'"), "make the module importable here, or load it where"),
    (ZeroDivisionError("division by zero"), "return numbers, arrays or paths; this one may be loaded where it can be"),
    (
        RuntimeError("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."),
        ".cpu()",
    ),
]


@pytest.mark.parametrize(("broken", "hint"), UNLOADABLE, ids=lambda value: type(value).__name__)
def test_a_result_that_cannot_be_loaded_here_is_no_error_of_the_function(
    job: Job[int], broken: Exception, hint: str
) -> None:
    """``except ZeroDivisionError`` around ``result()`` is about the function, which has succeeded."""
    save_result(job._files, 0, Raises(broken))
    end(job)
    error = job.exception()
    assert isinstance(error, errors.ResultNotLoaded)
    assert f"{type(broken).__name__}: {broken}" in error.message
    assert f"file: {job._files.result(0)}" in error.message
    assert hint in error.hint
    assert (error.facts.job_id, job.state, repr(error.__cause__)) == ("4711", "COMPLETED", repr(broken))


def test_every_rank_has_a_value_that_may_not_load(job: Job[int]) -> None:
    """Also that of a rank which is not the first, with its number."""
    object.__setattr__(job.description, "processes", 2)
    save_result(job._files, 1, Raises(ZeroDivisionError("division by zero")))
    end(job)
    with pytest.raises(errors.ResultNotLoaded, match="rank: 1"):
        job.results()


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


def test_the_end_of_a_with_waits_for_nothing(project: Path) -> None:
    """A pool would hold the caller for as long as the job takes."""
    with Executor(cluster="local") as here:
        job = here.submit(functions.sleep, 600)
    assert not job.done()
    job.cancel()
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)


def test_attach_names_what_it_did_not_find(project: Path) -> None:
    """And where it looked: the project may be another one."""
    with pytest.raises(ValueError, match=r"no run '99' in .*runs"):
        attach("99")
