"""Read how much CPU time the control group of this process allows: a container sees all CPUs and may use few.

Source: the kernel's documentation, cgroup-v2 (``cpu.max``) and the CFS bandwidth control of version 1.
"""

from __future__ import annotations

from pathlib import Path


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
