"""Times: limits, durations, and times of day."""

from __future__ import annotations

import re
import time

_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "": 1}


def read_minutes(text: str) -> int | None:
    """Read ``90``, ``30:00``, ``2:00:00``, ``1-12``, ``1-12:30``; 0 for no limit, None where it is none of these."""
    if text.upper() in {"INFINITE", "UNLIMITED", "-1", "0"}:
        return 0
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if match is None:
        return None
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    if days is not None:
        hours, minutes, seconds = first or 0, second or 0, third or 0
    elif third is not None:
        hours, minutes, seconds = first or 0, second or 0, third
    else:
        hours, minutes, seconds = 0, first or 0, second or 0
    return (days or 0) * 1440 + hours * 60 + minutes + (seconds > 0)


def read_begin(text: str, now: float, seconds_per_minute: float) -> float | None:
    """Read ``now+2hours`` or a time of day, in seconds since the epoch; None where it is neither.

    Args:
        text: What ``--begin`` is given.
        now: Seconds since the epoch.
        seconds_per_minute: Seconds that a minute of the fake takes.
    """
    match = re.fullmatch(r"now(?:\+(\d+)(second|minute|hour|day|week|)s?)?", text)
    if match:
        return now + int(match[1] or 0) * _UNITS_S[match[2] or ""] * seconds_per_minute / 60
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return time.mktime(time.strptime(text, form))
        except ValueError:
            continue
    return None


def short_time(seconds: float) -> str:
    """Write a duration as squeue does: ``0:05``, ``1:00:00``, ``7-00:00:00``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def long_time(seconds: float) -> str:
    """Write a duration as scontrol does: ``00:00:05``, ``7-00:00:00``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    text = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{text}" if days else text


def moment(seconds: float | None, form: str | None = None, *, none: str = "Unknown") -> str:
    """Write a time of day, in the form of ``SLURM_TIME_FORMAT``."""
    if seconds is None:
        return none
    if form and form.startswith("%"):
        return time.strftime(form, time.localtime(seconds)) if form != "%s" else str(int(seconds))
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))
