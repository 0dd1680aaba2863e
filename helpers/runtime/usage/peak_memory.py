"""Find out how much host memory a job has used at most, after the memory limit has ended it.

Slurm removes the cgroup of a step with the step; that of the whole job on this node lives as long as the batch
script, and the kernel keeps in it the peak of all that ran in it (``memory.max_usage_in_bytes`` in cgroup v1,
``memory.peak`` in v2 from Linux 5.19 on). Without cgroups, and on other nodes, the accounting's ``MaxRSS`` is
what there is: a sample, which may miss the moment that counts.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.runtime.attempt.slurm import without_filters
from helpers.runtime.run.status import Peak

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIB = 2**20
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TIMEOUT_S = 30
_RETRY_DELAYS_S = (1.0, 2.0)  # a step's line comes when slurmstepd has reported it


def peak_on_this_node(cgroups: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/sys/fs/cgroup")) -> Peak | None:
    """Return the kernel's count for the job that this process belongs to; None where there is no cgroup of a job.

    Args:
        cgroups: The kernel's list of the groups of this process.
        mounts: Where they are mounted.
    """
    for file in _counters(cgroups, mounts):
        try:
            peak_bytes = int(file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        node = os.environ.get("SLURMD_NODENAME", platform.node())
        return Peak(mem_mb=round(peak_bytes / _MIB), source="cgroup", node=node)
    return None


def _counters(cgroups: Path, mounts: Path) -> Iterator[Path]:
    try:
        lines = cgroups.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        job = re.match(r"/(.*/)?job_\d+(?=/|$)", path)
        if job is None:
            continue
        if "memory" in controllers.split(","):
            yield mounts / "memory" / job[0].lstrip("/") / "memory.max_usage_in_bytes"
        elif number == "0":
            yield mounts / job[0].lstrip("/") / "memory.peak"


def peak_in_accounting(job: str) -> Peak | None:
    """Return the largest ``MaxRSS`` of the job's steps; None where there is no accounting, or it knows of none."""
    command = ["sacct", "--noheader", "--parsable2", f"--jobs={job}", "--format=MaxRSS,MaxRSSNode"]
    for delay in (*_RETRY_DELAYS_S, None):
        try:
            done = subprocess.run(
                command,
                env=without_filters(os.environ),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        seen = [peak for line in done.stdout.splitlines() if (peak := _read_peak(line)) is not None]
        if seen or done.returncode != 0 or delay is None:
            break
        time.sleep(delay)
    return max(seen, key=lambda peak: peak.mem_mb, default=None)


def _read_peak(line: str) -> Peak | None:
    """Read ``13412K|gpu1``."""
    amount, _, node = line.partition("|")
    match = re.fullmatch(r"([\d.]+)([KMGT]?)", amount)
    if match is None:
        return None
    return Peak(mem_mb=round(float(match[1]) * _UNITS[match[2]] / _MIB), source="accounting", node=node)
