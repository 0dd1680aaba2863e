"""Slurm's lists of hosts: ``gpu[1-3,7],login``."""

from __future__ import annotations

import re
from collections.abc import Iterable


def compress(names: Iterable[str]) -> str:
    """Write names as Slurm does."""
    groups: dict[tuple[str, int], list[int]] = {}
    order: list[tuple[str, int] | str] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)", name)
        key = (match[1], len(match[2]) if match[2].startswith("0") else 0) if match else name
        if isinstance(key, tuple) and match:
            groups.setdefault(key, []).append(int(match[2]))
        if key not in order:
            order.append(key)
    return ",".join(key if isinstance(key, str) else _write(key, sorted(groups[key])) for key in order)


def ranges(numbers: list[int], width: int = 0) -> str:
    """Write ``0-3,7`` for sorted numbers."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in parts)


def _write(key: tuple[str, int], numbers: list[int]) -> str:
    prefix, width = key
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}}"
    return f"{prefix}[{ranges(numbers, width)}]"


def expand(text: str) -> list[str]:
    """Read a list of hosts."""
    names: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        match = re.fullmatch(r"(.*?)\[(.*)\]", part)
        if match is None:
            names.append(part)
            continue
        for piece in match[2].split(","):
            first, _, last = piece.partition("-")
            width = len(first) if first.startswith("0") else 0
            names += [f"{match[1]}{number:0{width}}" for number in range(int(first), int(last or first) + 1)]
    return names


def per_node(counts: list[int]) -> str:
    """Write counts for each node as Slurm does: ``4(x2),3``."""
    parts: list[list[int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1][1] += 1
        else:
            parts.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)
