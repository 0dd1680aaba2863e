"""Looking at jobs one by one costs as little as looking at them together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import ClusterUnreachable, Job
from helpers.runtime.run.status import State
from helpers.submission.clusters.slurm_queue import Observation
from helpers.submission.jobs import glance as glance_module
from helpers.submission.jobs.glance import Glance
from helpers.submission.jobs.job import cancel_jobs
from tests.unit.submission.jobs.test_watcher import CANCELLED, RUNNING, WAITING, FakeCluster


class SlurmLike(FakeCluster):
    """One whose answers are costly."""

    name = "slurm-like"
    answer_serves_s = 1000.0

    def cancel(self, _runs: Any) -> None:
        """Take everything out of the queue."""
        self.known = dict.fromkeys(self.known, CANCELLED)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SlurmLike:
    """A scheduler with three elements that wait, all of which this process watches."""
    cluster = SlurmLike()
    cluster.known = {f"9_{number}": WAITING for number in range(3)}
    monkeypatch.setattr(glance_module.watcher, "ids_at", lambda _queue: ["9_0", "9_1", "9_2"])
    return cluster


Look = Callable[[str], Observation | None]


@pytest.fixture
def look(cluster: SlurmLike) -> Look:
    """Look at a job there."""
    glance = Glance()
    return lambda job_id: glance.at(cluster, job_id)  # type: ignore[arg-type]  # a fake


def test_one_question_serves_all_jobs_of_the_process(look: Look, cluster: SlurmLike) -> None:
    """A squeue for each of a thousand elements took half a minute, and the controller's time."""
    assert [look(f"9_{number}") for number in (0, 1, 2, 0)] == [WAITING] * 4
    assert [sorted(question) for question in cluster.questions] == [["9_0", "9_1", "9_2"]]


def test_a_job_that_was_not_asked_about_is_asked_about(look: Look, cluster: SlurmLike) -> None:
    """It may have been queued since."""
    cluster.known["10"] = RUNNING
    assert (look("9_0"), look("10"), look("11")) == (WAITING, RUNNING, None)
    assert len(cluster.questions) == 3


def test_an_old_answer_does_not_serve(look: Look, cluster: SlurmLike) -> None:
    """Who polls wants to see the change."""
    cluster.answer_serves_s = 1e-9
    look("9_0")
    cluster.known["9_0"] = RUNNING
    assert look("9_0") == RUNNING


def test_where_a_question_costs_nothing_each_is_asked(look: Look, cluster: SlurmLike) -> None:
    """On this machine."""
    cluster.answer_serves_s = 0.0
    assert (look("9_0"), look("9_1")) == (WAITING, WAITING)
    assert cluster.questions == [["9_0"], ["9_1"]]


def test_silence_is_no_answer(look: Look, cluster: SlurmLike) -> None:
    """It is asked again the next time."""
    cluster.silent = True
    with pytest.raises(ClusterUnreachable):
        look("9_0")
    cluster.silent = False
    assert look("9_0") == WAITING


def test_what_this_process_has_cancelled_is_seen_at_once(project: Path, cluster: SlurmLike) -> None:
    """Not by an answer of before."""
    job: Job[Any] = Job(project, cluster, "9_0", describe=lambda: pytest.fail("nobody asks"))  # type: ignore[arg-type]
    (project / "run.json").write_text("{}")
    job.description = None  # type: ignore[assignment]
    assert job.state == "PENDING"
    cancel_jobs([job])
    assert State(job.state) is State.CANCELLED
