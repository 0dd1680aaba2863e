"""Everything that ends a job early, done at once to a job each, and what must be true of every one of them.

The jobs wait at step 13, with step 10 saved, until they are disturbed. The claims are tested once for each way in
which Slurm tracks processes: cgroup in ``test_faults``, the others in ``test_faults_full``.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from helpers import errors
from tests.slurm.faults import RANKS, WHOLE, Disturbed, Outcome
from tests.slurm.faults_program import HELD_AT, PATIENCE_S, SAVE_EVERY
from tests.slurm.processes import processes_of_jobs
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster import Cluster
    from tests.cluster.settings import ProcessTracking
    from tests.slurm.conftest import ClusterWith

# Slurm's own 30 s between SIGTERM and SIGKILL: whether a save fits must not depend on how busy this machine is.
SETTINGS = {"cpus_per_node": 64, "mem_mb": 64_000, "kill_wait": 30}
USER_SIGNAL = "SlurmctldParameters=preempt_send_user_signal"

PREEMPTED = ["preempted", "preempted with a grace", "preempted with a signal"]
WARNED = [*PREEMPTED, "scontrol requeue", "USR2", "TERM"]
UNDISTURBED = ["slurmd restarted", "slurmctld restarted", "slurmdbd stopped"]
KILLED = ["rank killed", "srun killed", "batch shell killed"]


def disturb_all(cluster_with: ClusterWith, folder: Path, proctrack: ProcessTracking) -> dict[str, Outcome]:
    """Start a job for every kind, do to each what its name says, and return what came of it."""
    cluster = cluster_with(**SETTINGS, proctrack=proctrack)
    less = {**SETTINGS, "proctrack": proctrack, "accounting": False, "grace_time": 10}
    graces = {
        "preempted with a grace": cluster_with(**less),
        "preempted with a signal": cluster_with(**less, extra=(USER_SIGNAL,)),
    }
    first, second = cluster.nodes
    jobs: dict[str, Disturbed] = {}

    def start(name: str, on: Cluster, node: str, **settings: object) -> None:
        place = folder / name.replace(" ", "-")
        jobs[name] = Disturbed(on, place, {"partition": "gpu", "slurm": {"nodelist": node}, **settings}).start()

    start("preempted", cluster, first, partition="low", gpus=2)
    for name, graceful in graces.items():
        start(name, graceful, graceful.nodes[0], partition="low", gpus=2)
    for name in ("scontrol requeue", "USR2", "TERM", "scancel", *KILLED, *UNDISTURBED[1:]):
        start(name, cluster, first)
    for name in ("slurmd restarted", "node lost"):
        start(name, cluster, second)
    try:
        for job in jobs.values():
            job.hold()
        _disturb(cluster, jobs)
        return {name: job.outcome() for name, job in jobs.items()}
    finally:
        for job in jobs.values():
            job.abandon()


def _disturb(cluster: Cluster, jobs: dict[str, Disturbed]) -> None:
    _lose_node(cluster, jobs)
    for name in PREEMPTED:
        jobs[name].preempt()
    for what in ("rank", "srun", "batch"):
        jobs[{"batch": "batch shell"}.get(what, what) + " killed"].kill(what)
    cluster.run("scontrol", "requeue", jobs["scontrol requeue"].job_id)
    cluster.run("scancel", "--signal=USR2", jobs["USR2"].job_id)
    cluster.run("scancel", "--signal=TERM", jobs["TERM"].job_id)
    cluster.run("scancel", jobs["scancel"].job_id)
    cluster.stop_daemon("slurmdbd")
    jobs["slurmdbd stopped"].release()
    wait_for(jobs["slurmdbd stopped"].has_ended, "the job ends without slurmdbd", within_s=PATIENCE_S)
    cluster.start_daemon("slurmdbd")
    # a job that begins while the controller is restarted is held up for two minutes, by srun; or drains its node
    for name, job in jobs.items():
        if job.cluster is cluster and name != "slurmctld restarted":
            wait_for(job.has_ended, f"{name} ends before the controller is restarted", within_s=PATIENCE_S)
    cluster.stop_daemon("slurmctld")
    cluster.start_daemon("slurmctld")
    jobs["slurmctld restarted"].release()


def _lose_node(cluster: Cluster, jobs: dict[str, Disturbed]) -> None:
    """Kill the second node's slurmd, which costs nothing, then take the node away."""
    node = jobs["slurmd restarted"].node
    cluster.stop_daemon("slurmd", node=node, how=signal.SIGKILL)
    cluster.start_daemon("slurmd", node=node)
    jobs["slurmd restarted"].release()
    jobs["slurmd restarted"].wait_for_end()
    jobs["node lost"].lose_node()


class ClaimsOfEveryEnding:
    """What must be true; ``outcomes`` is a fixture of the module that tests it."""

    @pytest.mark.parametrize("fault", WARNED)
    def test_with_a_warning_no_step_is_lost(self, outcomes: dict[str, Outcome], fault: str) -> None:
        """All ranks save at the same step, and the same job goes on with the next one."""
        outcome = outcomes[fault]
        assert (outcome.error, outcome.value) == (None, WHOLE)
        assert outcome.lost == [0] * RANKS
        assert outcome.causes == ["preempted", "returned"]

    @pytest.mark.parametrize("fault", [*WARNED, "node lost"])
    def test_the_same_job_goes_on_once(self, outcomes: dict[str, Outcome], fault: str) -> None:
        """No second job, no second attempt beside the first."""
        outcome = outcomes[fault]
        assert outcome.attempts == [0, 1]
        assert outcome.in_order
        assert len(outcome.ids) == 1

    @pytest.mark.parametrize("fault", WARNED)
    def test_the_log_tells_at_which_step_it_was_saved(self, outcomes: dict[str, Outcome], fault: str) -> None:
        """Whoever looks after it sees why there is a second attempt, and that nothing is missing."""
        assert f"preempted: saved at step {outcomes[fault].saved_at}, asking for a requeue" in outcomes[fault].log

    def test_a_lost_node_costs_at_most_what_was_not_saved(self, outcomes: dict[str, Outcome]) -> None:
        """The newest checkpoint is of step 10, or newer where Slurm still told the processes to stop."""
        outcome = outcomes["node lost"]
        assert (outcome.error, outcome.value) == (None, WHOLE)
        assert max(outcome.lost) <= HELD_AT - SAVE_EVERY

    @pytest.mark.parametrize("fault", UNDISTURBED)
    def test_a_daemon_that_comes_and_goes_costs_nothing(self, outcomes: dict[str, Outcome], fault: str) -> None:
        """The job goes on, and its caller still gets the value."""
        outcome = outcomes[fault]
        assert (outcome.error, outcome.value, outcome.attempts) == (None, WHOLE, [0])
        assert outcome.lost == [0] * RANKS

    @pytest.mark.parametrize("fault", KILLED)
    def test_a_killed_process_ends_the_job_and_the_checkpoint_stays(
        self, outcomes: dict[str, Outcome], fault: str
    ) -> None:
        """The same would most likely happen again; the caller is told which signal, and can go on by hand."""
        outcome = outcomes[fault]
        assert isinstance(outcome.error, errors.JobKilled), outcome.error
        assert outcome.error.facts.signal == "SIGKILL"
        assert outcome.attempts == [0]
        assert f"step-{SAVE_EVERY:08d}" in outcome.checkpoints

    def test_the_rank_that_was_killed_is_named(self, outcomes: dict[str, Outcome]) -> None:
        """C33: rank 0 is ended because of it."""
        error = outcomes["rank killed"].error
        assert isinstance(error, errors.JobKilled)
        assert error.facts.rank == 1

    def test_a_cancel_stays_a_cancel(self, outcomes: dict[str, Outcome]) -> None:
        """Whoever cancels a training does not want it back; what was saved stays."""
        outcome = outcomes["scancel"]
        assert isinstance(outcome.error, errors.JobCancelled)
        assert outcome.state == "CANCELLED"
        assert outcome.attempts == [0]
        assert outcome.checkpoints[-1] >= f"step-{SAVE_EVERY:08d}"


def nothing_is_left_running(cluster: Cluster) -> None:
    """Return when the cluster has neither a job nor a process of one."""
    wait_for(lambda: not cluster.run("squeue", "--noheader").stdout.strip(), "the queue is empty", within_s=60)
    wait_for(lambda: not processes_of_jobs(cluster), "all processes have ended", within_s=60)
