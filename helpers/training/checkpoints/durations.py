"""Read a duration as people write it."""

from __future__ import annotations

import re
from datetime import timedelta

from helpers.errors import InvalidRequest

_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h|d)(?:\s+|(?=\d)|$)")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{2}):(\d{2})")  # Slurm's days-hours:minutes:seconds


def read_seconds(duration: str | float | timedelta) -> float:
    """Return a duration in seconds.

    Args:
        duration: ``"90s"``, ``"10min"``, ``"1h 30min"``, ``"02:00:00"``, ``"1-00:00:00"``, a timedelta, or
            seconds.

    Raises:
        InvalidRequest: If it cannot be read, or is not longer than zero.
    """
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        seconds = _read_text(duration)
    else:
        seconds = float(duration)
    if not seconds > 0:
        raise InvalidRequest(f"A duration must be longer than zero, got {duration!r}.", hint='e.g. "10min"')
    return seconds


def _read_text(text: str) -> float:
    stripped = text.strip().lower()
    if clock := _CLOCK.fullmatch(stripped):
        days, hours, minutes, seconds = (int(group or 0) for group in clock.groups())
        return days * 86400.0 + hours * 3600 + minutes * 60 + seconds
    parts = list(_PART.finditer(stripped))
    if not parts or "".join(part.group(0) for part in parts) != stripped:
        raise InvalidRequest(
            f"A duration is written as in '90s', '10min', '1h 30min' or '02:00:00', got {text!r}.",
            hint='save_every="10min"',
        )
    return sum(float(part.group(1)) * _SECONDS[part.group(2)] for part in parts)


def read_rhythm(save_every: str | float | timedelta) -> tuple[int | None, float | None]:
    """Return the number of steps or the seconds between two saves."""
    if isinstance(save_every, bool) or not isinstance(save_every, int):
        return None, read_seconds(save_every)
    if save_every < 1:
        raise InvalidRequest(f"save_every must be at least 1 step, got {save_every}.", hint='save_every="10min"')
    return save_every, None
