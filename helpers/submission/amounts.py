"""Read the amounts that people write: ``"8h"``, ``"64G"``, ``"a100:4"``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta

from helpers.errors import InvalidRequest

_UNITS_MIN = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1 / 60),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 1),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 60),
    **dict.fromkeys(("d", "day", "days"), 1440),
    **dict.fromkeys(("w", "week", "weeks"), 10080),
}
_UNITS_MB = {"M": 1, "MB": 1, "G": 1024, "GB": 1024, "T": 1024**2, "TB": 1024**2}
_MIG_SLICE = re.compile(r"\d+g\.\d+gb(\..*)?")  # NVIDIA's profile names, such as 2g.10gb


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """How many GPUs, and of which type.

    Args:
        count: In all.
        kind: The type as Slurm names it (``"a100"``, or a MIG slice such as ``"2g.10gb"``); None for any.
    """

    count: int
    kind: str | None = None

    def per_node(self, nodes: int) -> str:
        """Return the value of ``--gpus-per-node``."""
        count = str(self.count // nodes)
        return count if self.kind is None else f"{self.kind}:{count}"


def parse_gpus(value: int | str) -> Gpus:
    """Read ``4``, ``"4"``, ``"a100:4"`` or one MIG slice, ``"2g.10gb:1"``.

    Raises:
        InvalidRequest: If it is none of these, or asks for more than one MIG slice.
    """
    kind, _, number = str(value).rpartition(":")
    if isinstance(value, bool) or not number.isdecimal():
        raise InvalidRequest(f"gpus is a number, or type:number; got {value!r}.", hint='gpus=4 or gpus="a100:4"')
    gpus = Gpus(count=int(number), kind=kind or None)
    if kind and _MIG_SLICE.fullmatch(kind) and gpus.count > 1:
        raise InvalidRequest(
            f"A CUDA process sees one MIG slice, so a job of {gpus.count} slices would use one; got {value!r}.",
            hint=f'submit_array(train, grid(seed=range({gpus.count})), gpus="{kind}:1")',
        )
    return gpus


def parse_minutes(value: str | float | timedelta) -> int:
    """Read a time limit: ``"8h"``, ``"30min"``, ``"1-12:00:00"``, ``"02:00:00"``, a timedelta, or minutes.

    Returns:
        Whole minutes, rounded up: Slurm counts in minutes.

    Raises:
        InvalidRequest: If it is none of these, or below one minute.
    """
    if isinstance(value, timedelta):
        minutes = value.total_seconds() / 60
    elif isinstance(value, int | float) and not isinstance(value, bool):
        minutes = float(value)
    else:
        minutes = _minutes_of_text(str(value))
    if not minutes >= 1 or math.isinf(minutes):
        raise InvalidRequest(f"A time limit is at least 1 minute, got {value!r}.", hint='time="30min"')
    return math.ceil(minutes - 1e-9)


def _minutes_of_text(text: str) -> float:
    clock = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?", text.strip())
    if clock:
        days, first, second, third = (int(part or 0) for part in clock.groups())
        if clock[1] is None and clock[4] is None:
            return first + second / 60  # Slurm reads "10:30" as minutes:seconds
        hours, minutes, seconds = first, second, third  # "1-12:00" is days-hours:minutes
        return days * 1440 + hours * 60 + minutes + seconds / 60
    parts = re.findall(r"([\d.]+)\s*([a-z]+)", text.lower())
    left_over = re.sub(r"[\d.]+\s*[a-z]+", "", text.lower()).strip()
    try:
        total = sum(float(number) * _UNITS_MIN[unit] for number, unit in parts)
    except (KeyError, ValueError):
        parts = []
    if not parts or left_over:
        raise InvalidRequest(
            f"A time limit is written as 8h, 30min, 1-12:00:00 or 02:00:00; got {text!r}.", hint='time="8h"'
        )
    return total


def duration_text(minutes: int) -> str:
    """Write a time limit as people do: ``"7d"``, ``"8h"``, ``"90min"``."""
    if minutes % 1440 == 0:
        return f"{minutes // 1440}d"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}min"


def memory_text(size_mb: int) -> str:
    """Write memory as people do: ``"64G"``, ``"500M"``."""
    return f"{size_mb}M" if size_mb % 1024 else f"{size_mb // 1024}G"


def parse_memory_mb(value: str | float) -> int:
    """Read host memory per node: ``"64G"``, ``"500M"``; a number without a unit is gigabytes, also as text.

    Raises:
        InvalidRequest: If it is neither, or not above 0.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        size: float = value * 1024
    else:
        match = re.fullmatch(r"([\d.]+)\s*([MGT]B?)?", str(value).strip().upper().replace("IB", "B"))
        if match is None or match[1].count(".") > 1 or not match[1].strip("."):
            raise InvalidRequest(f"Memory is written as 64G or 500M; got {value!r}.", hint='mem="64G"')
        size = float(match[1]) * _UNITS_MB[match[2] or "G"]
    if not size >= 1:
        raise InvalidRequest(f"Memory is at least 1M, got {value!r}.", hint='mem="64G"')
    return round(size)
