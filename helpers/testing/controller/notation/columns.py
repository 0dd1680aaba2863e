"""Tables as people ask for them: ``--format`` by letters, ``--Format`` by names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any


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
