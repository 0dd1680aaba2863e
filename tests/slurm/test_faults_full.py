"""What takes too long for every run of the suite: the other ways of tracking processes, and steps without an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.slurm.faults import RANKS, WHOLE, Disturbed
from tests.slurm.faults_program import HELD_AT, SAVE_EVERY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.settings import ProcessTracking
    from tests.slurm.conftest import ClusterWith

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.mark.parametrize("proctrack", ["linuxproc", "pgid"])
def test_with_a_warning_no_step_is_lost_whoever_is_signalled(
    cluster_with: ClusterWith, proctrack: ProcessTracking, tmp_path: Path
) -> None:
    """The direct child, the process group or the whole tree: Slurm's setting decides who gets the signal."""
    cluster = cluster_with(cpus_per_node=64, mem_mb=64_000, kill_wait=30, proctrack=proctrack, accounting=False)
    first, second = cluster.nodes
    jobs = {
        "preempted": Disturbed(
            cluster, tmp_path / "preempted", {"partition": "low", "gpus": 2, "slurm": {"nodelist": first}}
        ).start(),
        **{name: Disturbed(cluster, tmp_path / name).start() for name in ("requeue", "USR2", "TERM")},
        "lost": Disturbed(cluster, tmp_path / "lost", {"slurm": {"nodelist": second}}).start(),
    }
    for job in jobs.values():
        job.hold()
    jobs["preempted"].preempt()
    cluster.run("scontrol", "requeue", jobs["requeue"].job_id)
    for name in ("USR2", "TERM"):
        cluster.run("scancel", f"--signal={name}", jobs[name].job_id)
    cluster.set_node_state(second, "DOWN")
    cluster.set_node_state(second, "RESUME")
    outcomes = {name: job.outcome() for name, job in jobs.items()}
    assert {name: outcome.value for name, outcome in outcomes.items()} == dict.fromkeys(jobs, WHOLE)
    assert {name: max(outcome.lost) for name, outcome in outcomes.items() if name != "lost"} == dict.fromkeys(
        ("preempted", "requeue", "USR2", "TERM"), 0
    )
    assert max(outcomes["lost"].lost) <= HELD_AT - SAVE_EVERY
    assert all(outcome.in_order and outcome.attempts == [0, 1] for outcome in outcomes.values())


def test_a_step_longer_than_the_warning_costs_that_step_alone(cluster_with: ClusterWith, tmp_path: Path) -> None:
    """The time limit comes in the midst of it: the job still comes back, from the last periodic save."""
    cluster = cluster_with(cpus_per_node=64, mem_mb=64_000, kill_wait=30)
    (tmp_path / "job").mkdir()
    job = Disturbed(cluster, tmp_path / "job", {"time": 2})
    (tmp_path / "job" / "deaf").touch()
    outcome = job.start().outcome()
    assert (outcome.error, outcome.value) == (None, WHOLE)
    assert outcome.lost == [HELD_AT - SAVE_EVERY] * RANKS
    assert outcome.causes == ["timeout", "returned"]
    assert len(outcome.ids) == 1
