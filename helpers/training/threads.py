"""Fix the number of threads from the CPUs that this very process may use.

A library that counts the machine's CPUs starts dozens of threads in a job of two; and sums that are split
over another number of threads round differently, so that a resumed run would not be the same run.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

_USER_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def available_cpus() -> frozenset[int]:
    """Return the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


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
    if not any(os.environ.get(name) for name in _USER_SETTINGS):
        torch.set_num_threads(choose_threads(available_cpus(), neighbours, read_quota()))
    return torch.get_num_threads()


def read_quota(root: Path = Path("/sys/fs/cgroup"), process: Path = Path("/proc/self/cgroup")) -> float | None:
    """Return how many CPUs' worth of time the control group allows; None without a limit or a way to know."""
    limits = [limit for folder in _folders(root, process) if (limit := _limit(folder)) is not None]
    return min(limits) if limits else None


def _folders(root: Path, process: Path) -> list[Path]:
    """List the control group's folder and all above it: any of them may set a limit."""
    try:
        lines = process.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    folders: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        relative = Path(path.lstrip("/"))
        folders += [base / part for part in (relative, *relative.parents)]
    return folders


def _limit(folder: Path) -> float | None:
    """Read ``cpu.max`` (version 2: quota and period in µs) or the two files of version 1."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="utf-8").strip()
        return None if quota == "max" or int(quota) <= 0 else int(quota) / int(period)
    except (OSError, ValueError):
        return None
