"""Read a duration that training code gives: a text, seconds or a timedelta."""

from __future__ import annotations

from datetime import timedelta

from helpers.errors import InvalidRequest
from helpers.runtime.duration import read_duration


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
        read = read_duration(duration)
        if read is None:
            raise InvalidRequest(
                f"A duration is written as in '90s', '10min', '1h 30min' or '02:00:00', got {duration!r}.",
                hint=f'"{duration.strip()}min"' if duration.strip().isdecimal() else '"10min"',
            )
        seconds = read
    else:
        seconds = float(duration)
    if not seconds > 0:
        raise InvalidRequest(f"A duration must be longer than zero, got {duration!r}.", hint='e.g. "10min"')
    return seconds
