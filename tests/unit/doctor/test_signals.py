"""What the probe of signals tells people: the rest is measured, in ``tests/slurm/test_doctor_signals.py``."""

import pytest

from helpers.doctor.signals import PROCESSES, SignalReport


@pytest.mark.parametrize(
    ("tracking", "lost"),
    [
        ("cgroup", []),
        ("linuxproc", ["- Slurm loses sight of what a process has started that is killed (SIGKILL)"]),
        ("pgid", ["- Slurm loses sight of a program that leaves the process group (`setsid`, a daemon)"]),
    ],
)
def test_what_slurm_loses_sight_of_is_told(tracking: str, lost: list[str]) -> None:
    """It holds the memory of a GPU, and nobody looks for it."""
    settings = {"ProctrackType": f"proctrack/{tracking}"}
    report = SignalReport(seen={name: {} for name in PROCESSES}, settings=settings, partitions={})
    told = [line for line in report.lines() if "loses sight" in line]
    assert [line.partition(":")[0] for line in told] == lost
