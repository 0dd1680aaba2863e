"""Names of logs, with Slurm's placeholders: ``%j``, ``%A``, ``%04t``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NO_TASK = 4294967294  # what Slurm prints for %a where there is no array


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
