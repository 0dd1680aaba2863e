"""What becomes of an array that nobody waits for is written down by whoever looks at it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import submit
from helpers.runtime.run.description import write_description
from helpers.runtime.run.element import begin_element, element_folder
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, State, Status, read_status, record_attempt, write_status
from helpers.submission.clusters.local import LocalCluster
from helpers.submission.clusters.slurm_queue import Observation
from helpers.submission.jobs import settling
from helpers.submission.jobs.array_status import array_status
from helpers.submission.jobs.settling import settle_elements
from helpers.submission.plan import Plan, make_plan
from helpers.submission.resources.settings import complete_settings
from tests.unit.submission import functions
from tests.unit.submission.jobs.test_watcher import CANCELLED, WAITING, FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A scheduler in which the three elements of array 9 wait."""
    cluster = FakeCluster()
    cluster.known = {f"9_{number}": WAITING for number in range(3)}
    monkeypatch.setattr(settling, "queue_of", lambda _description: cluster)
    monkeypatch.setattr(settling, "SETTLE_S", 0.2)
    return cluster


@pytest.fixture
def plan(project: Path) -> Plan:
    """Array 9, queued, and watched by nobody."""
    where: dict[str, Any] = {"cluster": LocalCluster(), "complete": complete_settings({})}
    plan = make_plan(functions.add, [((number,), {}) for number in range(3)], is_array=True, **where)
    plan.write("")
    record_attempt(plan.run, event="queued", attempt=0, job_id="9", elements=3)
    return plan


def state_of(plan: Plan) -> State:
    return array_status(plan.run, plan.description, "9").state


def test_an_array_that_was_cancelled_before_it_began_is_cancelled(plan: Plan, cluster: FakeCluster) -> None:
    """By a plain ``scancel``, with no client left: it was PENDING for ever, and Slurm soon forgets it."""
    cluster.known = dict.fromkeys(cluster.known, CANCELLED)
    settle_elements([plan.run])
    cluster.known.clear()
    assert state_of(plan) is State.CANCELLED
    settle_elements([plan.run])
    assert len(cluster.questions) == 1  # all have ended


def test_an_array_that_waited_in_vain_never_started(plan: Plan, cluster: FakeCluster) -> None:
    """Slurm calls it cancelled, and so did we: of an element that has not begun there was no folder to read it from."""
    first = submit(functions.odd_only, 2, cluster="inline")
    write_description(plan.run, replace(plan.description, after=[str(first.folder)]))
    cluster.known = dict.fromkeys(cluster.known, CANCELLED)
    settle_elements([plan.run])
    ended = [read_status(element_folder(plan.run, number)) for number in range(3)]
    assert [status.state if status else None for status in ended] == [State.DEPENDENCY_FAILED] * 3


def test_elements_that_go_on_are_left_as_they_are(plan: Plan, cluster: FakeCluster) -> None:
    """One was cancelled alone."""
    cluster.known["9_1"] = CANCELLED
    settle_elements([plan.run])
    assert [read_status(element_folder(plan.run, number)) is None for number in range(3)] == [True, False, True]
    assert state_of(plan) is State.RUNNING


def test_an_elements_own_word_counts_more(plan: Plan, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has run on a node, and its word is on the way."""
    run = RunFolder(plan.run.path / "elements" / "1")
    begin_element(run)
    cluster.known["9_1"] = Observation(state=State.FAILED, word="FAILED", exit_code=1, nodes="gpu1")
    ending = Ending(cause="raised", rank=0, detail="ValueError: boom")
    said = Status(state=State.FAILED, job_id="9_1", attempt=0, ending=ending)
    monkeypatch.setattr(settling.time, "sleep", lambda _seconds: write_status(run, said))
    settle_elements([plan.run])
    status = read_status(run)
    assert status is not None
    assert status.ending == ending


def test_elements_that_nobody_knows_may_still_speak(plan: Plan, cluster: FakeCluster) -> None:
    """Out of sight is not an end that could be written down."""
    cluster.known.clear()
    settle_elements([plan.run])
    assert state_of(plan) is State.PENDING


def test_an_element_that_has_a_successor_goes_on(plan: Plan, cluster: FakeCluster) -> None:
    """It is asked about by its newest id."""
    run = RunFolder(plan.run.path / "elements" / "1")
    begin_element(run)
    record_attempt(run, event="queued", attempt=1, job_id="12_0", step=None)
    cluster.known |= {"9_1": CANCELLED, "12_0": WAITING}
    settle_elements([plan.run])
    assert read_status(run) is None
