"""Find the processes of a cluster's jobs: its daemons and its clients bear no job's id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from tests.cluster import Cluster


def processes_of_jobs(cluster: Cluster, job: str | None = None) -> list[tuple[psutil.Process, dict[str, str]]]:
    """Return the processes, each with its environment, of all jobs or of one."""
    psutil.process_iter.cache_clear()  # an id may be another process's by now, to which psutil would send no signal
    everybody = [(process, process.info["environ"] or {}) for process in psutil.process_iter(["environ"])]
    ours = [pair for pair in everybody if cluster.environment.items() <= pair[1].items() and "SLURM_JOB_ID" in pair[1]]
    return [pair for pair in ours if job in {None, pair[1]["SLURM_JOB_ID"]}]
