"""Read the amounts that people write: ``"8h"``, ``"64G"``, ``"a100:4"``."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.duration import read_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

UNITS_BYTES = {
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
    **dict.fromkeys(("t", "tb", "tib"), 2**40),
}
_MIB = 2**20
_UNITS_OF_MEMORY = {unit: size for unit, size in UNITS_BYTES.items() if size >= _MIB} | {"": UNITS_BYTES["g"]}
_QUANTITY = re.compile(r"(\d+\.?\d*|\.\d+)\s*([a-z]*)")


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


@functools.cache
def is_mig(kind: str) -> bool:
    """Say whether a GPU type is a slice of a GPU (NVIDIA's profile names, such as ``2g.10gb`` or ``1g.10gb+me``)."""
    return re.fullmatch(r"(mig-)?\d+g\.\d+gb.*", kind, re.IGNORECASE) is not None


def read_quantity(text: str, units: Mapping[str, float]) -> float | None:
    """Read a number and its unit: ``"10G"``, ``"1.5 TiB"``, ``"2 weeks"``.

    Args:
        text: In upper or lower case.
        units: What one of each unit is, by every spelling in lower case; ``""`` for a number alone.

    Returns:
        The product; None where it is no number with one of these units.
    """
    match = _QUANTITY.fullmatch(text.strip().lower())
    return None if match is None or match[2] not in units else float(match[1]) * units[match[2]]


def parse_gpus(value: int | str) -> Gpus:
    """Read ``4``, ``"4"``, ``"a100:4"`` or one MIG slice, ``"2g.10gb:1"``.

    Raises:
        InvalidRequest: If it is none of these, or asks for more than one MIG slice.
    """
    kind, _, number = str(value).rpartition(":")
    if isinstance(value, bool) or not number.isdecimal():
        raise InvalidRequest(f"gpus is a number, or type:number; got {value!r}.", hint='gpus=4 or gpus="a100:4"')
    gpus = Gpus(count=int(number), kind=kind or None)
    if kind and is_mig(kind) and gpus.count > 1:
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
    seconds = read_duration(text)
    if seconds is None:
        raise InvalidRequest(
            f"A time limit is written as 8h, 30min, 1-12:00:00 or 02:00:00; got {text!r}.",
            hint=f'time="{text.strip()}min"' if text.strip().isdecimal() else 'time="8h"',
        )
    return seconds / 60


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
        InvalidRequest: If it is neither, not above 0, or without end.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        size: float = value * 1024
    else:
        read = read_quantity(str(value), _UNITS_OF_MEMORY)
        if read is None:
            raise InvalidRequest(f"Memory is written as 64G or 500M; got {value!r}.", hint='mem="64G"')
        size = read / _MIB
    if not size >= 1 or math.isinf(size):
        raise InvalidRequest(f"Memory is at least 1M, got {value!r:.80}.", hint='mem="64G"')
    return round(size)
