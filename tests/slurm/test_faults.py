"""Whatever ends a job early costs nothing with a warning, at most ``save_every`` without, and nothing runs twice.

The jobs of a cluster run at once and wait at step 13, with step 10 saved, until they are disturbed. A time
limit and a preemption of the whole template are in ``test_survival``.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers import errors
from tests.slurm.faults import RANKS, WHOLE, Disturbed, Outcome, wait_for
from tests.slurm.faults_program import HELD_AT, SAVE_EVERY

if TYPE_CHECKING:
    from tests.cluster import Cluster
    from tests.slurm.conftest import ClusterWith

# Slurm's own 30 s between SIGTERM and SIGKILL: whether a save fits must not depend on how busy this machine is.
SETTINGS = {"cpus_per_node": 64, "mem_mb": 64_000, "kill_wait": 30}
USER_SIGNAL = "SlurmctldParameters=preempt_send_user_signal"

pytestmark = pytest.mark.timeout(600)  # the first test waits for all the jobs

WARNED = ["preempted", "preempted with a grace", "preempted with a signal", "scontrol requeue", "USR2", "TERM"]
UNDISTURBED = ["slurmd restarted", "slurmctld restarted", "slurmdbd stopped"]
KILLED = ["rank killed", "srun killed", "batch shell killed"]


@pytest.fixture(scope="module")
def outcomes(cluster_with: ClusterWith, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What came of every disturbance."""
    cluster = cluster_with(**SETTINGS)
    graces = {
        "preempted with a grace": cluster_with(**SETTINGS, grace_time=10, accounting=False),
        "preempted with a signal": cluster_with(**SETTINGS, grace_time=10, accounting=False, extra=(USER_SIGNAL,)),
    }
    folder = tmp_path_factory.mktemp("faults")
    first, second = cluster.nodes
    jobs: dict[str, Disturbed] = {}

    def start(name: str, on: Cluster, node: str, **settings: object) -> None:
        place = folder / name.replace(" ", "-")
        jobs[name] = Disturbed(on, place, {"partition": "gpu", "slurm": {"nodelist": node}, **settings}).start()

    start("preempted", cluster, first, partition="low", gpus=2)
    for name, graceful in graces.items():
        start(name, graceful, graceful.nodes[0], partition="low", gpus=2)
    for name in ("scontrol requeue", "USR2", "TERM", "scancel", *KILLED, "slurmctld restarted", "slurmdbd stopped"):
        start(name, cluster, first)
    for name in ("slurmd restarted", "node lost"):
        start(name, cluster, second)
    for job in jobs.values():
        job.hold()
    _disturb(cluster, jobs)
    return {name: job.outcome() for name, job in jobs.items()}


def _disturb(cluster: Cluster, jobs: dict[str, Disturbed]) -> None:
    """Do to each job what its name says."""
    for name in ("preempted", "preempted with a grace", "preempted with a signal"):
        jobs[name].preempt()
    for what in ("rank", "srun", "batch"):
        jobs[{"batch": "batch shell"}.get(what, what) + " killed"].kill(what)
    cluster.run("scontrol", "requeue", jobs["scontrol requeue"].job_id)
    cluster.run("scancel", "--signal=USR2", jobs["USR2"].job_id)
    cluster.run("scancel", "--signal=TERM", jobs["TERM"].job_id)
    cluster.run("scancel", jobs["scancel"].job_id)
    cluster.stop_daemon("slurmdbd")
    jobs["slurmdbd stopped"].release()
    wait_for(lambda: jobs["slurmdbd stopped"].process.poll() is not None, "the job ends without slurmdbd")
    cluster.start_daemon("slurmdbd")
    node = jobs["slurmd restarted"].node
    cluster.stop_daemon("slurmd", node=node, how=signal.SIGKILL)
    cluster.start_daemon("slurmd", node=node)
    jobs["slurmd restarted"].release()
    jobs["slurmd restarted"].wait_for_end()
    cluster.set_node_state(node, "DOWN")
    cluster.set_node_state(node, "RESUME")
    for name in ("preempted", "scontrol requeue", "USR2", "TERM", "scancel"):
        jobs[name].wait_for_end()
    cluster.stop_daemon("slurmctld")  # by SIGTERM: killed, it would come back with a state some seconds old
    cluster.start_daemon("slurmctld")
    jobs["slurmctld restarted"].release()


@pytest.mark.parametrize("fault", WARNED)
def test_with_a_warning_no_step_is_lost(outcomes: dict[str, Outcome], fault: str) -> None:
    """All ranks save at the same step, and the same job goes on with the next one."""
    outcome = outcomes[fault]
    assert (outcome.error, outcome.value) == (None, WHOLE)
    assert outcome.lost == [0] * RANKS
    assert outcome.causes == ["preempted", "returned"]


@pytest.mark.parametrize("fault", [*WARNED, "node lost"])
def test_the_same_job_goes_on_once(outcomes: dict[str, Outcome], fault: str) -> None:
    """No second job, no second attempt beside the first."""
    outcome = outcomes[fault]
    assert outcome.attempts == [0, 1]
    assert outcome.in_order
    assert len(outcome.ids) == 1


def test_a_lost_node_costs_at_most_what_was_not_saved(outcomes: dict[str, Outcome]) -> None:
    """The newest checkpoint is of step 10, or newer where Slurm still told the processes to stop."""
    outcome = outcomes["node lost"]
    assert (outcome.error, outcome.value) == (None, WHOLE)
    assert max(outcome.lost) <= HELD_AT - SAVE_EVERY


@pytest.mark.parametrize("fault", UNDISTURBED)
def test_a_daemon_that_comes_and_goes_costs_nothing(outcomes: dict[str, Outcome], fault: str) -> None:
    """The job goes on, and its caller still gets the value."""
    outcome = outcomes[fault]
    assert (outcome.error, outcome.value, outcome.attempts) == (None, WHOLE, [0])
    assert outcome.lost == [0] * RANKS


@pytest.mark.parametrize("fault", KILLED)
def test_a_killed_process_ends_the_job_and_the_checkpoint_stays(outcomes: dict[str, Outcome], fault: str) -> None:
    """The same would most likely happen again; the caller is told which signal, and can go on by hand."""
    outcome = outcomes[fault]
    assert isinstance(outcome.error, errors.JobKilled), outcome.error
    assert outcome.error.facts.signal == "SIGKILL"
    assert outcome.attempts == [0]
    assert f"step-{SAVE_EVERY:08d}" in outcome.checkpoints


def test_the_rank_that_was_killed_is_named(outcomes: dict[str, Outcome]) -> None:
    """C33: rank 0 is ended because of it."""
    error = outcomes["rank killed"].error
    assert isinstance(error, errors.JobKilled)
    assert error.facts.rank == 1


def test_a_cancel_stays_a_cancel(outcomes: dict[str, Outcome]) -> None:
    """Whoever cancels a training does not want it back; what was saved stays."""
    outcome = outcomes["scancel"]
    assert isinstance(outcome.error, errors.JobCancelled)
    assert outcome.state == "CANCELLED"
    assert outcome.attempts == [0]
    assert outcome.checkpoints[-1] >= f"step-{SAVE_EVERY:08d}"


def test_nothing_is_left_running(outcomes: dict[str, Outcome], cluster_with: ClusterWith) -> None:
    """Neither a job nor a process of one."""
    cluster = cluster_with(**SETTINGS)
    wait_for(lambda: not cluster.run("squeue", "--noheader").stdout.strip(), "the queue is empty", within_s=60)
    wait_for(lambda: not _pids_alive(outcomes), "all ranks have ended", within_s=60)


def _pids_alive(_outcomes: dict[str, Outcome]) -> list[str]:
    return [
        str(path)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"helpers.runtime.rank" in _read(path) and b"faults" in _read(path.with_name("environ"))
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
