"""What happens to jobs on a cluster happens to them on the fake one, through the same code."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from helpers import (
    ClusterUnreachable,
    DependencyFailed,
    InvalidRequest,
    Job,
    JobCancelled,
    JobKilled,
    JobLost,
    JobOutOfMemory,
    JobPreempted,
    NodeFailed,
    Rejected,
    TimeLimitReached,
    attach,
    call,
    submit,
    submit_array,
)
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from helpers.testing import FakeSlurm, Node, Partition, Settings
from tests.unit.submission import functions
from tests.unit.testing.programs import Sleeper, count
from tests.waiting import wait_for

PATIENCE_S = 240


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))


def running(slurm: FakeSlurm, function: Any, *args: Any, **keywords: Any) -> Job[Any]:
    job = submit(function, *args, **keywords)
    slurm.wait_until_called(job)
    return job


def test_a_round_trip_is_as_quick_as_without_a_scheduler(fake_slurm: FakeSlurm) -> None:
    """Half a second on an idle machine; measured against the same on this machine itself, which may be busy."""

    def seconds(**settings: str) -> float:
        begun = time.monotonic()
        assert submit(functions.add, 1, b=2.5, **settings).result(PATIENCE_S) == 3.5
        return time.monotonic() - begun

    by_turns = [(seconds(), seconds(cluster="local")) for _ in range(4)]  # what keeps the machine busy keeps both
    assert min(fake for fake, _ in by_turns) < 3 * min(local for _, local in by_turns)


def test_an_array_that_waits_in_vain_never_starts(fake_slurm: FakeSlurm) -> None:
    """Slurm takes it out of the queue; its elements were called cancelled, by nobody."""
    with fake_slurm.hold_queue():
        first = submit(functions.add, 1, b=2)
        jobs = submit_array(functions.add, [call(1, b=2), call(first, b=2)], after=first)
        first.cancel()
        assert [type(job.exception(PATIENCE_S)) for job in jobs] == [DependencyFailed] * 2


def test_ranks_know_their_place_and_their_gpus(fake_slurm: FakeSlurm) -> None:
    """Two nodes with two ranks each, as on a cluster."""
    places = submit(functions.where_am_i, gpus="a100:4", nodes=2).results(PATIENCE_S)
    assert [(p["node"], p["local_rank"], p["visible"]) for p in places] == [
        ("gpu1", 0, "0,1"), ("gpu1", 1, "0,1"), ("gpu2", 0, "0,1"), ("gpu2", 1, "0,1"),
    ]  # fmt: skip


def test_a_preemption_costs_no_step(fake_slurm: FakeSlurm) -> None:
    """The point of a Checkpointer; it can be tested on a laptop."""
    job = running(fake_slurm, count, 100, 0.1)
    wait_for((job.folder / "checkpoints").exists, "it has its Checkpointer, after torch's import")
    fake_slurm.preempt(job, grace_s=30)
    value = job.result(PATIENCE_S)
    assert (value["counted"], value["attempts"], job.attempt) == (list(range(100)), [0, 1], 1)


def cause_of_the_first_attempt(job: Job[Any]) -> str:
    ended = [line for line in read_ledger(RunFolder(job.folder)) if line["event"] == "end"]
    return str(ended[0]["cause"])


def test_a_preempted_job_comes_back(fake_slurm: FakeSlurm) -> None:
    """Without a grace: SIGTERM, and KILL after ``kill_wait_s``."""
    job = running(fake_slurm, Sleeper(), 600)
    fake_slurm.preempt(job)
    assert job.result(PATIENCE_S) == "came back"
    assert cause_of_the_first_attempt(job) == "preempted"


@pytest.mark.parametrize("fake_slurm_settings", [Settings(seconds_per_minute=1)])
def test_a_time_limit_is_called_one(fake_slurm: FakeSlurm) -> None:
    """It is told apart from a preemption by the job's end; with short minutes it is soon there."""
    job = running(fake_slurm, Sleeper(), 600, time="20min")
    assert job.result(PATIENCE_S) == "came back"
    assert cause_of_the_first_attempt(job) == "timeout"


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ("preempt", JobPreempted), ("reach_time_limit", TimeLimitReached), ("run_out_of_memory", JobOutOfMemory),
    ],
)  # fmt: skip
def test_what_cannot_resume_ends(fake_slurm: FakeSlurm, event: str, error: type[Exception]) -> None:
    """Each event has its class."""
    job = running(fake_slurm, functions.sleep, 600)
    getattr(fake_slurm, event)(job)
    with pytest.raises(error):
        job.result(PATIENCE_S)


def test_a_lost_node_is_told(fake_slurm: FakeSlurm) -> None:
    """Where the job may not be requeued; else it starts on another node."""
    job = running(fake_slurm, functions.sleep, 600, requeue=False)
    node = fake_slurm.lose_node(job)
    with pytest.raises(NodeFailed):
        job.result(PATIENCE_S)
    again = submit(functions.where_am_i).result(PATIENCE_S)
    assert again["node"] != node


def test_a_job_goes_on_after_its_node_was_lost(fake_slurm: FakeSlurm) -> None:
    """From its newest checkpoint, on another node."""
    job = running(fake_slurm, Sleeper(), 600)
    first = fake_slurm.lose_node(job)
    assert job.result(PATIENCE_S) == "came back"
    assert (fake_slurm.job(job).restarts, fake_slurm.job(job).nodes != first) == (1, True)


def test_a_running_job_is_cancelled(fake_slurm: FakeSlurm) -> None:
    """And one that waits, which has no log to tell it."""
    job = running(fake_slurm, functions.sleep, 600)
    with fake_slurm.hold_queue():
        waiting = submit(functions.add, 1)
        waiting.cancel()
        job.cancel()
        for cancelled in (job, waiting):
            with pytest.raises(JobCancelled):
                cancelled.result(PATIENCE_S)


def test_a_held_queue_starts_nothing_and_says_why(fake_slurm: FakeSlurm) -> None:
    """A busy cluster, for as long as a test wants."""
    with fake_slurm.hold_queue(reason="Resources"):
        job = submit(functions.add, 1)
        assert (job.state, job.reason.partition(":")[0]) == ("PENDING", "Resources")
    assert job.result(PATIENCE_S) == 1


def test_a_silent_controller_is_told_and_survived(fake_slurm: FakeSlurm, capfd: pytest.CaptureFixture[str]) -> None:
    """A submission fails by name; a job that runs goes on, and its result comes."""
    job = running(fake_slurm, functions.sleep, 1)
    with fake_slurm.controller_down():
        with pytest.raises(ClusterUnreachable, match="Unable to contact slurm controller"):
            submit(functions.add, 1)
        time.sleep(0.5)
    job.result(PATIENCE_S)
    assert submit(functions.add, 1).result(PATIENCE_S) == 1


def test_a_refusal_is_in_slurms_words(fake_slurm: FakeSlurm) -> None:
    """What only the controller knows."""
    with pytest.raises(Rejected, match="Requested reservation is invalid"):
        submit(functions.add, 1, slurm={"reservation": "nonesuch"})
    assert fake_slurm.jobs() == []


def test_a_killed_batch_script_is_noticed(fake_slurm: FakeSlurm) -> None:
    """Nothing in the run folder tells it; only Slurm knows."""
    job = running(fake_slurm, functions.sleep, 600)
    os.system(f"scancel --batch --signal=KILL {job.id}")  # noqa: S605 -- as a user would
    with pytest.raises(JobKilled):
        job.result(PATIENCE_S)


def test_a_forgotten_job_keeps_its_result(fake_slurm: FakeSlurm) -> None:
    """The queue forgets after minutes; the run folder does not."""
    job = submit(functions.add, 1)
    job.result(PATIENCE_S)
    fake_slurm.wait_for(job)
    fake_slurm.forget(job)
    assert attach(job.folder).result(PATIENCE_S) == 1


def test_jobs_can_be_looked_at(fake_slurm: FakeSlurm) -> None:
    """What code under test asked for is what a test wants to know."""
    job = submit(functions.add, 1, gpus="a100:2", time="2h", name="adding")
    seen = fake_slurm.wait_for(job, "COMPLETED")
    assert (seen.name, seen.partition, seen.options["time"]) == ("adding", "gpu", "120")
    assert len(fake_slurm.calls("sbatch")) == 1


class TestAnotherCluster:
    """A module, a class or a conftest says what its cluster is made of."""

    @pytest.fixture
    def fake_slurm_settings(self) -> Settings:
        return Settings(
            cluster="small",
            nodes=(Node(name="n1", cpus=4, mem_mb=4000, gpus={"h100": 2}),),
            partitions=(Partition(name="main", is_default=True, max_time_min=60),),
            accounting=False,
        )

    def test_its_types_and_limits_are_those_that_count(self, fake_slurm: FakeSlurm) -> None:
        """What the library reads of a cluster, it reads of this one."""
        with pytest.raises(InvalidRequest, match="a100"):
            submit(functions.add, 1, gpus="a100:1")
        with pytest.raises(InvalidRequest, match="1h"):
            submit(functions.add, 1, time="2h")
        place = submit(functions.where_am_i, gpus=1).result(PATIENCE_S)
        assert (place["node"], place["partition"]) == ("n1", "main")

    def test_without_accounting_a_forgotten_job_is_lost(self, fake_slurm: FakeSlurm) -> None:
        """The one case in which nobody can know; it is not guessed."""
        with fake_slurm.hold_queue():
            job = submit(functions.add, 1)
            fake_slurm.forget(job)
            with pytest.raises(JobLost):
                job.result(PATIENCE_S)
