"""What a job's processes have started ends with the job; where Slurm does not see to that, it is known what stays.

Slurm ends what it tracks: all processes of a control group (``cgroup``), those below its own (``linuxproc``: a process
whose parent was killed is no longer below), or a process group (``pgid``). Ours ends its children itself, wherever it
can still act.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from helpers import submit
from tests.slurm import descendants
from tests.slurm.conftest import become_client
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from helpers import Job
    from tests.cluster import Cluster
    from tests.cluster.settings import ProcessTracking
    from tests.slurm.conftest import ClusterWith

ENDINGS: dict[str, Callable[[Cluster, Job[Any], int], object]] = {
    "cancelled": lambda _cluster, job, _pid: job.cancel(),
    "scancel": lambda cluster, job, _pid: cluster.run("scancel", job.id),
    "requeued": lambda cluster, job, _pid: cluster.run("scontrol", "requeue", job.id),
    "killed": lambda _cluster, _job, pid: os.kill(pid, signal.SIGKILL),
}
OUT_OF_THE_GROUP = {"group", "session"}
STAYS: dict[ProcessTracking, dict[str, set[str]]] = {
    "cgroup": {},
    "linuxproc": {"killed": set(descendants.KINDS)},
    "pgid": {"scancel": OUT_OF_THE_GROUP, "requeued": OUT_OF_THE_GROUP, "killed": OUT_OF_THE_GROUP},
}
PATIENCE_S = 120


@pytest.fixture(
    scope="module",
    params=["cgroup", *(pytest.param(name, marks=pytest.mark.full) for name in ("linuxproc", "pgid"))],
)
def tracked(request: pytest.FixtureRequest, cluster_with: ClusterWith) -> Cluster:
    """A cluster for each way of tracking processes."""
    return cluster_with() if request.param == "cgroup" else cluster_with(proctrack=request.param)


@pytest.fixture(scope="module")
def left(tracked: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """Who is alive after a job for each ending; all of them run at once."""
    folder = tmp_path_factory.mktemp("descendants")
    with pytest.MonkeyPatch.context() as patch:
        become_client(tracked, patch, folder)
        jobs = {
            name: submit(descendants.start_some_and_wait, str(folder / name), mem="300M", time=10, name=name)
            for name in ENDINGS
        }
        for name, end in ENDINGS.items():
            wait_for((folder / name).exists, within_s=PATIENCE_S)
            end(tracked, jobs[name], int((folder / name).read_text()))
        for job in jobs.values():
            job.exception(PATIENCE_S)
        tracked.wait_until_idle()
        survivors = {name: descendants.alive(tracked, job.id) for name, job in jobs.items()}
    yield {name: set(found) for name, found in survivors.items()}
    for found in survivors.values():
        for process in found.values():
            process.kill()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_a_job_has_started_ends_with_it_as_far_as_slurm_tracks_it(
    tracked: Cluster, left: dict[str, set[str]], ending: str
) -> None:
    """A program that is forgotten holds the memory of a GPU that the next job gets."""
    assert left[ending] == STAYS[tracked.proctrack].get(ending, set())
