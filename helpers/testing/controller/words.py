"""Slurm's notations: times, sizes, columns, log names."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

NO_TASK = 4294967294  # what Slurm prints for %a where there is no array
_MEMORY_MB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


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


def read_memory_mb(text: str) -> int | None:
    """Read ``500``, ``64G``, ``1.5T`` into MiB; None where it is none of these."""
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text, re.IGNORECASE)
    return None if match is None else int(int(match[1]) * _MEMORY_MB[match[2].upper() or "M"])


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


def memory_text(mem_mb: float) -> str:
    """Write memory as scontrol does: ``1000M``, ``2G``."""
    return f"{int(mem_mb // 1024)}G" if mem_mb and mem_mb % 1024 == 0 else f"{int(mem_mb)}M"


def read_wait_status(status: int) -> tuple[int, int]:
    """Return exit code and signal of what ``wait`` has returned."""
    return status >> 8, status & 0x7F


def shell_code(status: int) -> int:
    """Return the exit code by which a shell tells a wait status."""
    code, signal_number = read_wait_status(status)
    return 128 + signal_number if signal_number else code


def percent_columns(form: str, values: Mapping[str, Callable[[], Any]]) -> str:
    """Fill squeue's and sinfo's ``%.18i``: a dot right-justifies, a number is the width."""

    def fill(match: re.Match[str]) -> str:
        dot, width, letter = match.groups()
        if letter == "%":
            return "%"
        text = str(values[letter]()) if letter in values else ""
        return _fit(text, int(width) if width else 0, right=bool(dot))

    return re.sub(r"%(\.?)(\d*)([A-Za-z%])", fill, form)


def named_columns(form: str, values: Mapping[str, Callable[[], Any]]) -> list[tuple[str, Callable[[Any], str]]]:
    """Read ``--Format``'s ``JobID:.10,State:|``; return each name with what fits a text into its column.

    Raises:
        KeyError: For a name that is not known.
    """
    columns = []
    for entry in _split_columns(form):
        name, colon, rest = entry.partition(":")
        key = next((known for known in values if known.lower() == name.lower()), None)
        if key is None:
            raise KeyError(name)
        match = re.fullmatch(r"(\.?)(\d*)(.*)", rest, re.DOTALL) if colon else re.fullmatch(r"()(20)()", "20")
        dot, width, suffix = match.groups() if match else ("", "", rest)
        columns.append((key, _column(dot, width, suffix)))
    return columns


def _column(dot: str, width: str, suffix: str) -> Callable[[Any], str]:
    return lambda text: _fit(str(text), int(width) if width else 0, right=bool(dot)) + suffix


def _split_columns(form: str) -> list[str]:
    return [entry for entry in form.split(",") if entry]


def _fit(text: str, width: int, *, right: bool) -> str:
    if not width:
        return text
    return text[:width].rjust(width) if right else text[:width].ljust(width)


def log_name(pattern: str, values: Mapping[str, Any]) -> str:
    """Fill a log's name: ``%j``, ``%A``, ``%04t``, ``%%``; a backslash turns all of it off."""
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def fill(match: re.Match[str]) -> str:
        width, letter = match.groups()
        if letter == "%":
            return "%"
        if letter not in values:
            return match[0]
        text = str(values[letter])
        return text.zfill(min(int(width), 10)) if width and text.isdigit() else text

    return re.sub(r"%(\d*)([A-Za-z%])", fill, pattern)
