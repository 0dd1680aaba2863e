"""GPUs: ``a100:2``, ``gpu:a100:4,gpu:2g.10gb:2``."""

from __future__ import annotations

from collections.abc import Mapping


def read_gpus(text: str) -> dict[str, int]:
    """Read how many of each type; ``""`` stands for any."""
    gpus: dict[str, int] = {}
    for entry in text.split(","):
        kind, _, count = entry.rpartition(":")
        if count.isdecimal():
            gpus[kind] = gpus.get(kind, 0) + int(count)
        elif entry:
            gpus[entry] = gpus.get(entry, 0) + 1
    return {kind: count for kind, count in gpus.items() if count}


def gpus_text(gpus: Mapping[str, int], *, word: str = "gpu") -> str:
    """Write how many of each type, each with a word before it."""
    return ",".join(f"{word}:{kind}:{count}" if kind else f"{word}:{count}" for kind, count in gpus.items())
