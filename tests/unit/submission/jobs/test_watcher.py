"""One thread ends all futures, whatever becomes of a job, of its folder, or of the controller."""

import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from helpers import ClusterUnreachable, Job, JobArray, JobCancelled, JobLost, submit
from helpers.runtime.rank.call import save_result
from helpers.runtime.run.element import begin_element
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, State, Status, read_status, record_attempt, write_status
from helpers.submission.clusters import slurm_program
from helpers.submission.clusters.elsewhere import Elsewhere
from helpers.submission.clusters.local import LocalCluster
from helpers.submission.clusters.slurm import SlurmCluster
from helpers.submission.clusters.slurm_queue import Observation
from helpers.submission.jobs import watcher as watcher_module
from helpers.submission.jobs.array import watch_array
from helpers.submission.jobs.watcher import Watcher
from helpers.submission.plan import make_plan
from helpers.submission.resources.settings import complete_settings
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240
RUNNING = Observation(state=State.RUNNING, word="RUNNING")
WAITING = Observation(state=State.PENDING, word="PENDING")
CANCELLED = Observation(state=State.CANCELLED, word="CANCELLED")


class FakeCluster:
    """What stands where the scheduler would: it answers with what the test has put there."""

    name = "fake"
    answer_serves_s = 0.0

    def __init__(self) -> None:
        self.known: dict[str, Observation] = {}
        self.questions: list[list[str]] = []
        self.asked_at: list[float] = []
        self.silent = False

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Answer, and remember the question."""
        self.asked_at.append(time.monotonic())
        self.questions.append(list(job_ids))
        if self.silent:
            raise ClusterUnreachable("squeue: no answer.")
        return {job_id: self.known[job_id] for job_id in self.questions[-1] if job_id in self.known}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"_POLL_S": 0.01, "_ASK_EVERY_S": 0.05, "SETTLE_S": 0.2, "_LONGEST_PAUSE_S": 0.4}.items():
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


def wait_until_heard(cluster: FakeCluster) -> None:
    """Return once an answer to a question of after this call has been heard: the next one has been asked."""
    asked = len(cluster.questions)
    wait_for(lambda: len(cluster.questions) > asked + 1)


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
    wait_until_heard(cluster)
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


def test_a_job_that_comes_back_is_not_ended(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between preemption and requeue Slurm may call it PREEMPTED for a moment."""
    monkeypatch.setattr(watcher_module, "SETTLE_S", 600)
    job = queued("1")
    cluster.known["1"] = Observation(state=State.PREEMPTED, word="PREEMPTED")
    wait_until_heard(cluster)
    cluster.known["1"] = RUNNING
    wait_until_heard(cluster)
    monkeypatch.setattr(watcher_module, "SETTLE_S", 0)
    wait_until_heard(cluster)
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
    wait_for(lambda: len(cluster.questions) >= 5)
    pauses = [later - earlier for earlier, later in itertools.pairwise(cluster.asked_at)]
    assert all(pause >= least for pause, least in zip(pauses[:4], (0.1, 0.2, 0.4, 0.4), strict=True))


@pytest.fixture
def hanging_squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A controller that takes a question and never answers it; the file says that it has been asked."""
    program = tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "asked"


def test_a_result_arrives_while_squeue_hangs(queued: Callable[[str], Job[Any]], hanging_squeue: Path) -> None:
    """The one thread of this process waited for squeue, and with it all callers whose results were there."""
    before, after = queued("1"), queued("2")
    before._cluster = after._cluster = SlurmCluster()
    wait_for(hanging_squeue.exists)
    finish(before, "1")
    assert before.result(PATIENCE_S) == 3
    assert not after.done()
    finish(after, "2")
    assert after.result(PATIENCE_S) == 3


def test_a_hanging_squeue_is_given_up_and_said_once(
    queued: Callable[[str], Job[Any]],
    hanging_squeue: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the words of a controller that is down."""
    monkeypatch.setattr(slurm_program, "_ANSWERS_WITHIN_S", 0.5)
    job = queued("1")
    job._cluster = SlurmCluster()
    for _ in range(2):
        hanging_squeue.unlink(missing_ok=True)
        wait_for(hanging_squeue.exists)
    said = "Slurm is configured here and does not answer: squeue: no answer within 0.5 s. Asking again until it does"
    wait_for(lambda: said in capsys.readouterr().err)
    assert not job.done()
    finish(job, "1")
    assert job.result(PATIENCE_S) == 3
    assert said not in capsys.readouterr().err


def test_an_answer_that_comes_late_ends_no_job_twice(
    queued: Callable[[str], Job[Any]], cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own word came while the question was on its way: a future ends once, and the watcher lives on."""
    asked, answer = threading.Event(), threading.Event()

    def observe(_job_ids: Iterable[str]) -> dict[str, Observation]:
        asked.set()
        answer.wait(PATIENCE_S)
        return {}

    monkeypatch.setattr(watcher_module, "SETTLE_S", 0)
    job, other = queued("1"), queued("2")
    monkeypatch.setattr(cluster, "observe", observe)
    asked.wait(PATIENCE_S)
    finish(job, "1")
    assert job.result(PATIENCE_S) == 3
    answer.set()
    assert isinstance(other.exception(PATIENCE_S), JobLost)


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


class TestArrays:
    """An array of thousands is watched as one thing, until its elements begin."""

    @pytest.fixture
    def jobs(self, project: Path, cluster: FakeCluster) -> Iterator[JobArray[Any]]:
        """An array of three, queued as ``9`` with a fake, and waiting there."""
        calls = [((number,), {"b": 1}) for number in range(3)]
        where: dict[str, Any] = {"cluster": LocalCluster(), "complete": complete_settings({})}
        plan = make_plan(functions.add, calls, is_array=True, **where)
        plan.write("")
        cluster.known = {f"9_{number}": WAITING for number in range(3)}
        jobs = watch_array(plan.run, plan.description, cluster, [("9", 3)])  # type: ignore[arg-type]  # a fake
        yield jobs
        cluster.known.clear()
        wait(jobs)

    @staticmethod
    def begin(jobs: JobArray[Any], number: int) -> RunFolder:
        run = RunFolder(jobs.folder / "elements" / str(number))
        begin_element(run)
        save_result(run, 0, 10 + number)
        ending = Ending(cause="returned")
        write_status(run, Status(state=State.COMPLETED, job_id=f"9_{number}", attempt=0, ending=ending))
        return run

    def test_each_element_is_one_job(self, jobs: JobArray[Any]) -> None:
        """Sets and dictionaries of futures rely on it; ``wait`` is one."""
        assert jobs[0] is jobs[0]
        assert jobs[-1] is list(jobs)[2]
        assert jobs[1:] == [jobs[1], jobs[2]]
        with pytest.raises(IndexError):
            jobs[3]

    def test_elements_that_wait_are_asked_about_and_not_made(self, jobs: JobArray[Any], cluster: FakeCluster) -> None:
        """A thousand futures that nobody looks at cost as much as sbatch."""
        wait_for(lambda: ["9_0", "9_1", "9_2"] in cluster.questions)
        unmade = [elements.unmade() for elements in watcher_module.watcher.arrays() if elements.queue is cluster]
        assert unmade == [{"9_0": 0, "9_1": 1, "9_2": 2}]
        assert len(jobs) == 3

    def test_all_that_has_not_ended_is_known_by_its_id(self, jobs: JobArray[Any], cluster: FakeCluster) -> None:
        """For one question about all; also an element that somebody holds, and nothing that runs elsewhere."""
        assert jobs[1].state == "PENDING"
        assert sorted(watcher_module.watcher.ids_at(cluster)) == ["9_0", "9_1", "9_2"]  # type: ignore[arg-type]
        assert watcher_module.watcher.ids_at(Elsewhere("fake", "another cluster")) == []

    def test_an_element_that_ends_ends_its_job_also_where_it_is_held_later(self, jobs: JobArray[Any]) -> None:
        """Its folder appears when it begins."""
        held = jobs[0]
        self.begin(jobs, 0)
        self.begin(jobs, 1)
        assert (held.result(PATIENCE_S), jobs[1].result(PATIENCE_S)) == (10, 11)
        assert not jobs[2].done()

    def test_the_end_of_an_element_that_nobody_holds_is_kept(self, jobs: JobArray[Any], cluster: FakeCluster) -> None:
        """Cancelled before it began: Slurm forgets it within minutes, and the table is looked at tomorrow."""
        cluster.known["9_1"] = CANCELLED
        folder = jobs.folder / "elements" / "1"
        wait_for(lambda: read_status(RunFolder(folder)) is not None)
        assert isinstance(jobs[1].exception(PATIENCE_S), JobCancelled)
        assert not jobs[0].done()


def test_why_a_job_waits_is_a_sentence(queued: Callable[[str], Job[Any]], cluster: FakeCluster) -> None:
    """After Slurm's own word, which is what the cluster's support asks for."""
    job = queued("7")
    cluster.known["7"] = Observation(state=State.PENDING, word="PENDING", reason="JobHeldUser")
    assert job.reason == "JobHeldUser: It is held by its owner. Release it: scontrol release 7"
