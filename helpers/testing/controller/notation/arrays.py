"""Elements of a job array: ``0-15:4%2``."""

from __future__ import annotations

import re


def read_array(text: str, *, max_size: int) -> tuple[list[int], int] | None:
    """Return the indices and how many may run at a time (0: all); None where Slurm would refuse it."""
    spec, percent, throttle = text.strip().strip("[]").partition("%")
    if percent and not throttle.isdecimal():
        return None
    indices: set[int] = set()
    for part in spec.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if match is None:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1 or last >= max_size:
            return None
        indices.update(range(first, last + 1, step))
    return sorted(indices), int(throttle or 0)
