"""One thread ends all futures, whatever becomes of a job, of its folder, or of the controller."""

import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from helpers import ClusterUnreachable, Job, JobCancelled, JobLost, submit
from helpers.runtime.status import Ending, State, Status, record_attempt, write_status
from helpers.submission import watcher as watcher_module
from helpers.submission.slurm_queue import Observation
from helpers.submission.watcher import Watcher
from tests.unit.submission import functions

PATIENCE_S = 10
RUNNING = Observation(state=State.RUNNING, word="RUNNING")
CANCELLED = Observation(state=State.CANCELLED, word="CANCELLED")


class FakeCluster:
    """What stands where the scheduler would: it answers with what the test has put there."""

    name = "fake"

    def __init__(self) -> None:
        self.known: dict[str, Observation] = {}
        self.questions: list[list[str]] = []
        self.silent = False

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Answer, and remember the question."""
        self.questions.append(list(job_ids))
        if self.silent:
            raise ClusterUnreachable("squeue: no answer.")
        return {job_id: self.known[job_id] for job_id in self.questions[-1] if job_id in self.known}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"_POLL_S": 0.01, "_ASK_EVERY_S": 0.05, "_SETTLE_S": 0.2, "_LONGEST_PAUSE_S": 0.4}.items():
        monkeypatch.setattr(watcher_module, name, seconds)


@pytest.fixture
def cluster() -> FakeCluster:
    """The fake."""
    return FakeCluster()


@pytest.fixture
def queued(project: Path, cluster: FakeCluster) -> Callable[[str], Job[Any]]:
    """Return a function that makes a job of this id, known to the fake as running, and watched."""
    watcher = Watcher()

    def make(job_id: str) -> Job[Any]:
        folder = submit(functions.add, 1, 2, cluster="inline").folder
        (folder / "status.json").unlink()
        (folder / "jobs.jsonl").unlink()
        job: Job[Any] = Job(folder, cluster, job_id)  # type: ignore[arg-type]  # a fake
        cluster.known[job_id] = RUNNING
        watcher.watch(job)
        return job

    return make


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, "that did not happen in time"
        time.sleep(0.01)


def finish(job: Job[Any], job_id: str) -> None:
    write_status(job._files, Status(state=State.COMPLETED, job_id=job_id, attempt=0, ending=Ending(cause="returned")))


def test_a_job_that_tells_its_end_ends_its_future(queued: Callable[[str], Job[Any]]) -> None:
    """By the file in its folder, without a question to the scheduler."""
    job = queued("1")
    finish(job, "1")
    assert job.result(PATIENCE_S) == 3


def test_all_jobs_are_asked_about_in_one_question(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """A question for each of 500 jobs is what administrators write e-mails about."""
    for job_id in "123":
        queued(job_id)
    wait_for(lambda: ["1", "2", "3"] in cluster.questions)


def test_a_job_that_was_ended_from_outside_ends_its_future(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster
) -> None:
    """Its batch script is gone and writes nothing any more."""
    job = queued("1")
    cluster.known["1"] = CANCELLED
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)


def test_what_the_scheduler_said_is_kept_in_the_run(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """It forgets within minutes."""
    job = queued("1")
    cluster.known["1"] = CANCELLED
    job.exception(PATIENCE_S)
    del cluster.known["1"]
    assert job.state == "CANCELLED"


def test_the_last_word_of_a_scheduler_that_forgets_counts(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster
) -> None:
    """With a short MinJobAge a cancelled job was lost, because it was forgotten while its own word was awaited."""
    job = queued("1")
    cluster.known["1"] = CANCELLED
    asked = len(cluster.questions)
    wait_for(lambda: len(cluster.questions) > asked + 1)
    del cluster.known["1"]
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)


def test_a_job_that_vanished_is_lost_after_a_while(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """Not at once: its last file may still be on its way."""
    job = queued("1")
    begun = time.monotonic()
    del cluster.known["1"]
    assert isinstance(job.exception(PATIENCE_S), JobLost)
    assert time.monotonic() - begun >= 0.2


def test_the_jobs_own_word_counts_more_than_its_absence(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster
) -> None:
    """The result arrives a moment after the queue has let go of the job."""
    job = queued("1")
    del cluster.known["1"]
    asked = len(cluster.questions)
    wait_for(lambda: len(cluster.questions) > asked)
    finish(job, "1")
    assert job.result(PATIENCE_S) == 3


def test_a_job_that_comes_back_is_not_ended(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """Between preemption and requeue Slurm may call it PREEMPTED for a moment."""
    job = queued("1")
    cluster.known["1"] = Observation(state=State.PREEMPTED, word="PREEMPTED")
    time.sleep(0.1)
    cluster.known["1"] = RUNNING
    time.sleep(0.4)
    assert not job.done()


def test_a_successor_is_followed(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """Where Slurm refuses to requeue, the job submits itself again: the first id is gone, the run goes on."""
    job = queued("1")
    record_attempt(job._files, event="queued", attempt=1, job_id="2", step=None)
    cluster.known = {"2": RUNNING}
    wait_for(lambda: ["2"] in cluster.questions)
    time.sleep(0.4)
    assert not job.done()


def test_a_silent_controller_ends_no_job(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """It is restarted twice a week; the jobs go on."""
    cluster.silent = True
    job = queued("1")
    wait_for(lambda: len(cluster.questions) > 3)
    cluster.silent = False
    finish(job, "1")
    assert job.result(PATIENCE_S) == 3


def test_a_silent_controller_is_mentioned_once(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """And asked less and less often."""
    cluster.silent = True
    job = queued("1")
    wait_for(lambda: len(cluster.questions) > 3)
    finish(job, "1")
    job.result(PATIENCE_S)
    assert capsys.readouterr().err.count("no answer") == 1


def test_a_silent_controller_is_asked_less_and_less_often(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster
) -> None:
    """A thousand clients that ask every two seconds keep it down: 0.1, 0.2, 0.4, 0.4 s here."""
    cluster.silent = True
    queued("1")
    time.sleep(1)
    assert 3 <= len(cluster.questions) <= 5


def test_a_removed_run_folder_ends_its_future_and_no_other(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster
) -> None:
    """Writing into it failed, the thread died of that, and the callers of all other jobs waited for ever."""
    removed, other = queued("1"), queued("2")
    shutil.rmtree(removed.folder)
    del cluster.known["1"]
    assert isinstance(removed.exception(PATIENCE_S), JobLost)
    finish(other, "2")
    assert other.result(PATIENCE_S) == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unexpected_error_does_not_end_the_watcher(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All callers would wait for ever, in silence."""
    monkeypatch.setattr(cluster, "observe", lambda _ids: 1 / 0)
    job = queued("1")
    time.sleep(0.2)
    finish(job, "1")
    assert job.result(PATIENCE_S) == 3


def test_why_a_job_waits_is_a_sentence(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """After Slurm's own word, which is what the cluster's support asks for."""
    job = queued("7")
    cluster.known["7"] = Observation(state=State.PENDING, word="PENDING", reason="JobHeldUser")
    assert job.reason == "JobHeldUser: It is held by its owner. Release it: scontrol release 7"
