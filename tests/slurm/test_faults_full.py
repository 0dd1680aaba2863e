"""What takes too long for every run of the suite: the other ways of tracking processes, and steps without an end."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, cast

import pytest

from tests.slurm.disturbances import SETTINGS, ClaimsOfEveryEnding, disturb_all, nothing_is_left_running
from tests.slurm.faults import RANKS, WHOLE, Disturbed, Outcome
from tests.slurm.faults_program import HELD_AT, PATIENCE_S, SAVE_EVERY
from tests.slurm.slow_start import assert_costs_nothing_at_the_start
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.settings import ProcessTracking
    from tests.slurm.conftest import ClusterWith

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
TRACKINGS: list[ProcessTracking] = ["linuxproc", "pgid"]


@pytest.fixture(scope="module", params=TRACKINGS)
def proctrack(request: pytest.FixtureRequest) -> ProcessTracking:
    """The whole tree is signalled, or the process group."""
    return cast("ProcessTracking", request.param)


@pytest.fixture(scope="module")
def outcomes(
    cluster_with: ClusterWith, proctrack: ProcessTracking, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """What came of every disturbance."""
    return disturb_all(cluster_with, tmp_path_factory.mktemp("faults"), proctrack)


class TestEveryEnding(ClaimsOfEveryEnding):
    """Not only the process that Slurm has started gets the signal."""


def test_nothing_is_left_running(
    outcomes: dict[str, Outcome], cluster_with: ClusterWith, proctrack: ProcessTracking
) -> None:
    """Neither a job nor a process of one."""
    assert outcomes
    nothing_is_left_running(cluster_with(**SETTINGS, proctrack=proctrack))


@pytest.mark.parametrize("name", ["USR2", "TERM"])
def test_a_program_that_the_signal_ends_does_not_make_the_job_fail(
    cluster_with: ClusterWith, proctrack: ProcessTracking, tmp_path: Path, name: str
) -> None:
    """The function waits for it and raises; it goes on from its newest checkpoint, as after a lost node."""
    job = Disturbed(cluster_with(**SETTINGS, proctrack=proctrack), tmp_path / "job")
    job.folder.mkdir()
    (job.folder / "program").touch()
    job.start().hold()
    job.cluster.run("scancel", f"--signal={name}", job.job_id)
    outcome = job.outcome()
    assert (outcome.error, outcome.value) == (None, WHOLE)
    assert outcome.attempts == [0, 1]
    assert max(outcome.lost) <= HELD_AT - SAVE_EVERY
    assert "which ended a process that the function had started" in job.ledger("end")[0]["detail"]


@pytest.mark.parametrize("name", ["USR2", "TERM"])
def test_a_signal_that_comes_while_python_starts_costs_nothing(
    cluster_with: ClusterWith, proctrack: ProcessTracking, tmp_path: Path, name: str
) -> None:
    """Where more than one process gets it, too; with cgroup this is tested every time."""
    assert_costs_nothing_at_the_start(cluster_with, proctrack, tmp_path, name)


def test_the_time_limit_costs_no_step(cluster_with: ClusterWith, proctrack: ProcessTracking, tmp_path: Path) -> None:
    """With cgroup this is tested on the baked project."""
    job = Disturbed(cluster_with(**SETTINGS, proctrack=proctrack), tmp_path / "job", {"time": 2})
    outcome = job.start().outcome()
    assert (outcome.error, outcome.value, outcome.lost) == (None, WHOLE, [0] * RANKS)
    assert (outcome.causes, len(outcome.ids)) == (["timeout", "returned"], 1)


def test_a_controller_that_is_killed_costs_nothing(cluster_with: ClusterWith, tmp_path: Path) -> None:
    """The ranks are told to stop while it is gone: they save, the requeue is asked for until it answers again.

    What changed in the seconds before is not in the state that it saves; so nothing changes then.
    """
    cluster = cluster_with(**SETTINGS)
    stopped, released = (Disturbed(cluster, tmp_path / name).start() for name in ("stopped", "released"))
    for job in (stopped, released):
        job.hold()
    cluster.wait_until_saved()
    cluster.stop_daemon("slurmctld", how=signal.SIGKILL)
    for job in (stopped, released):
        wait_for(
            lambda job=job: "Asking again" in job.said(),
            "the caller sees that the controller is silent",
            within_s=PATIENCE_S,
        )
    released.release()
    for rank in range(RANKS):
        os.kill(stopped.pid(rank), signal.SIGUSR2)
    wait_for(lambda: "asking for a requeue" in stopped.log(), "the ranks have left", within_s=PATIENCE_S)
    wait_for(released.has_ended, "the other job's caller has the value", within_s=PATIENCE_S)
    cluster.start_daemon("slurmctld")
    outcome, undisturbed = stopped.outcome(), released.outcome()
    assert (outcome.error, outcome.value, outcome.lost) == (None, WHOLE, [0] * RANKS)
    assert (outcome.attempts, outcome.in_order, len(outcome.ids)) == ([0, 1], True, 1)
    assert (undisturbed.value, undisturbed.attempts, undisturbed.lost) == (WHOLE, [0], [0] * RANKS)
    assert [job.said().count("Asking again") for job in (stopped, released)] == [1, 1]


def test_a_step_longer_than_the_warning_costs_that_step_alone(cluster_with: ClusterWith, tmp_path: Path) -> None:
    """The time limit comes in the midst of it: the job still comes back, from the last periodic save."""
    (tmp_path / "job").mkdir()
    job = Disturbed(cluster_with(**SETTINGS), tmp_path / "job", {"time": 2})
    (tmp_path / "job" / "deaf").touch()
    outcome = job.start().outcome()
    assert (outcome.error, outcome.value) == (None, WHOLE)
    assert outcome.lost == [HELD_AT - SAVE_EVERY] * RANKS
    assert outcome.causes == ["timeout", "returned"]
    assert len(outcome.ids) == 1
