"""Memory: ``500``, ``64G``."""

from __future__ import annotations

import re

_MEMORY_MB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


def read_memory_mb(text: str) -> int | None:
    """Read ``500``, ``64G``, ``1.5T`` into MiB; None where it is none of these."""
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text, re.IGNORECASE)
    return None if match is None else int(int(match[1]) * _MEMORY_MB[match[2].upper() or "M"])


def memory_text(mem_mb: float) -> str:
    """Write memory as scontrol does: ``1000M``, ``2G``."""
    return f"{int(mem_mb // 1024)}G" if mem_mb and mem_mb % 1024 == 0 else f"{int(mem_mb)}M"
