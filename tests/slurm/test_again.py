"""Run again on a real Slurm: a new run from the start, or the same one, under a new id, from its checkpoint."""

from typing import Any

import pytest

from helpers import InvalidRequest, Job, JobCancelled, attach, submit, submit_array
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 120
pytestmark = pytest.mark.usefixtures("client")


def cancel_at_first_step(job: Job[Any]) -> None:
    wait_for(lambda: list(job.folder.glob("checkpoints/step-*")))
    job.cancel()
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)


def test_a_cancelled_run_is_resumed_under_a_new_id() -> None:
    """Same folder, next attempt; both ids lead to it."""
    job = submit(functions.save_and_leave, 2, time=10, gpus=1)
    first_id = job.id
    cancel_at_first_step(job)
    again = job.resume()
    assert again.result(PATIENCE_S) == 2
    assert (again.folder, again.attempt, again.state) == (job.folder, 1, "COMPLETED")
    assert int(again.id) > int(first_id)
    assert attach(again.id).folder == attach(first_id).folder == job.folder


def test_a_run_that_waits_or_runs_is_not_resumed() -> None:
    """Two at a time would write into one folder."""
    job = submit(functions.sleep, 600, time=10, slurm={"begin": "now+1hour"})
    with pytest.raises(InvalidRequest, match="has not ended: it is PENDING"):
        job.resume()
    job.cancel()
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)
    wait_for(lambda: job.state == "CANCELLED")


def test_a_run_that_never_started_is_resumed_as_it_was() -> None:
    """Cancelled in the queue, by mistake."""
    job = submit(functions.add, 1, time=10, slurm={"hold": True})
    job.cancel()
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)
    again = job.resume()
    assert (again.folder, again.state) == (job.folder, "PENDING")  # held again: the same script
    again.cancel()
    assert isinstance(again.exception(PATIENCE_S), JobCancelled)


def test_a_rerun_asks_for_the_same_and_begins_from_the_start() -> None:
    """Partition, processes, GPUs, set-up: the script is the same."""
    job = submit(functions.where_am_i, gpus=2, time=10, setup="export COLOUR=red", name="first run")
    again = job.rerun()
    assert again.script == job.script.replace(job.folder.name, again.folder.name)
    assert [place["world_size"] for place in again.results(PATIENCE_S)] == [2, 2]
    assert len(job.results(PATIENCE_S)) == 2
    assert again.id != job.id


def test_elements_of_an_array_are_resumed_and_rerun_one_by_one() -> None:
    """The others keep their results; what the batch script printed in the first attempt is not lost for the second."""
    jobs = submit_array(functions.save_and_leave, [1, 2], time=10, name="50% of 'it'")
    cancel_at_first_step(jobs[1])
    assert jobs[0].result(PATIENCE_S) == 1
    again = jobs[1].resume()
    assert (again.result(PATIENCE_S), again.folder, again.attempt) == (2, jobs[1].folder, 1)
    assert "CANCELLED AT" in again.logs(attempt=0)
    assert f"attempt 1, job {again.id}" in again.logs(attempt=1)
    assert jobs[0].rerun().result(PATIENCE_S) == 1
