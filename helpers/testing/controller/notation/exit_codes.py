"""What ``wait`` has returned of a process, as Slurm and as a shell tell it."""

from __future__ import annotations


def read_wait_status(status: int) -> tuple[int, int]:
    """Return exit code and signal of what ``wait`` has returned."""
    return status >> 8, status & 0x7F


def shell_code(status: int) -> int:
    """Return the exit code by which a shell tells a wait status."""
    code, signal_number = read_wait_status(status)
    return 128 + signal_number if signal_number else code
