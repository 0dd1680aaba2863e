"""Read a duration as people write it, and as Slurm does: the same forms for a time limit, a rhythm and a timeout."""

from __future__ import annotations

import re

UNITS_S = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 7 * 86400),
}
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
_PART = re.compile(r"([\d.]+)\s*([a-z]+)")


def read_duration(text: str) -> float | None:
    """Return the seconds of ``"90s"``, ``"1h 30min"``, ``"2 weeks"`` or ``"1-12:00:00"``; None for anything else.

    As in Slurm ``"10:30"`` is minutes and seconds, and ``"1-12:00"`` is days, hours and minutes.
    """
    text = text.strip().lower()
    if clock := _CLOCK.fullmatch(text):
        days, first, second, third = (int(part or 0) for part in clock.groups())
        if clock[1] is None and clock[4] is None:
            return first * 60.0 + second
        return days * 86400.0 + first * 3600 + second * 60 + third
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        return None
    try:
        return sum(float(number) * UNITS_S[unit] for number, unit in parts)
    except (KeyError, ValueError):
        return None
