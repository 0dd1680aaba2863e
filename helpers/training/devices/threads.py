"""Fix the number of threads from the CPUs that this very process may use.

A library that counts the machine's CPUs starts dozens of threads in a job of two; and sums that are split
over another number of threads round differently, so that a resumed run would not be the same run.
"""

from __future__ import annotations

import os

import torch

from helpers.runtime.current import current_run
from helpers.runtime.rank.cpu_quota import read_quota
from helpers.runtime.rank.thread_count import available_cpus, count_cpus, set_by_user


def choose_threads(own: frozenset[int], neighbours: list[frozenset[int]], quota: float | None) -> int:
    """Return the threads for one process.

    Args:
        own: The CPUs of this process.
        neighbours: Those of every process of this run on this node, this one included: CPUs that several
            may use are shared out.
        quota: CPUs' worth of time that the control group allows all of them together; None without a limit.
    """
    sharing = max(1, sum(1 for cpus in neighbours if cpus & own))
    threads = len(own) // sharing
    if quota is not None:
        threads = min(threads, int(quota / max(1, len(neighbours))))
    per_task = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if per_task.isdigit():
        threads = min(threads, int(per_task))  # whole cores may be given where fewer CPUs were asked for
    return max(1, threads)


def fix_threads(neighbours: list[frozenset[int]]) -> int:
    """Set torch's threads, unless the user did; return their number."""
    if not set_by_user(os.environ):
        torch.set_num_threads(choose_threads(available_cpus(), neighbours, read_quota()))
    return torch.get_num_threads()


def suggest_workers() -> int:
    """Return how many processes may read ahead for this one: its CPUs but one, at least 1.

    The CPUs are those that Slurm gave to this process, never more than its affinity and its control group's quota
    allow; ranks that share CPUs share them out.
    """
    environment = os.environ | current_run().ranks.as_environment()
    return max(1, count_cpus(environment, usable_cpus=len(available_cpus()), quota=read_quota()) - 1)
