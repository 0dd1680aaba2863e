"""Tell numeric libraries how many threads one rank may start.

They count the CPUs that the process may run on. Where a cluster does not bind its jobs to CPUs those are all of the
node's, and each rank would start dozens of threads in a job of two CPUs; a container's quota they do not see at all.
They read the variables when they are imported, so this is done before the function's modules are.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = "HELPERS_THREADS"
"""The number that was set here, so that it is not taken for the user's own."""

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


_BY_TORCHRUN = "TORCHELASTIC_RUN_ID"  # one task of Slurm's has started all ranks of the node


def limit_threads(environment: Mapping[str, str], *, usable_cpus: int, quota: float | None) -> dict[str, str]:
    """Return the variables that keep a rank's threads to its CPUs; none where the user set one.

    Args:
        environment: That of the rank, ``LOCAL_WORLD_SIZE`` included.
        usable_cpus: CPUs that the process may run on.
        quota: CPUs' worth of time that the control group allows; None without a limit.
    """
    if set_by_user(environment):
        return {}
    threads = str(count_cpus(environment, usable_cpus=usable_cpus, quota=quota))
    return {**dict.fromkeys(_VARIABLES, threads), OURS: threads}


def count_cpus(environment: Mapping[str, str], *, usable_cpus: int, quota: float | None) -> int:
    """Return how many CPUs are one rank's own, at least 1.

    In Slurm those that were asked for, else the job's share of the node; elsewhere a share of those that the
    process may run on. Never more than the affinity and the quota allow.

    Args:
        environment: As for :func:`limit_threads`.
        usable_cpus: As for :func:`limit_threads`.
        quota: As for :func:`limit_threads`; all ranks of the node share it.
    """
    ranks = max(1, int(environment.get("LOCAL_WORLD_SIZE") or 1))
    per_task, on_node = (environment.get(f"SLURM_CPUS_{name}", "") for name in ("PER_TASK", "ON_NODE"))
    if per_task.isdigit():
        given = int(per_task) // (ranks if _BY_TORCHRUN in environment else 1)
    elif on_node.isdigit():
        given = int(on_node) // ranks
    else:
        given = usable_cpus // ranks
    allowed = usable_cpus if quota is None else int(quota / ranks)
    return max(1, min(given, usable_cpus, allowed))


def set_by_user(environment: Mapping[str, str]) -> bool:
    """Say whether the user has chosen a number of threads: then all of them are left alone."""
    return any(environment.get(name) and not is_ours(environment, name) for name in _VARIABLES)


def is_ours(environment: Mapping[str, str], name: str) -> bool:
    """Say whether a variable has the number that :func:`limit_threads` has chosen."""
    return name in _VARIABLES and OURS in environment and environment.get(name) == environment[OURS]


def available_cpus() -> frozenset[int]:
    """Return the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
