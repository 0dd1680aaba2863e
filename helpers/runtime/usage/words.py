"""Write amounts as people do."""

from __future__ import annotations

_GIB_MB, _HOUR_MIN = 1024, 60


def memory_words(size_mb: int) -> str:
    """Write memory for people: ``300M``, ``3.1G``, ``16G``."""
    return f"{size_mb}M" if size_mb < _GIB_MB else f"{size_mb / _GIB_MB:.1f}G".replace(".0G", "G")


def time_words(minutes: int) -> str:
    """Write a limit as ``time=`` takes it: ``8h``, ``90min``."""
    return f"{minutes // _HOUR_MIN}h" if minutes and minutes % _HOUR_MIN == 0 else f"{minutes}min"


def count_words(number: int, word: str, plural: str | None = None) -> str:
    """Write a number with what is counted: ``1 node``, ``2 processes``."""
    return f"{number} {word if number == 1 else plural or word + 's'}"


def span_words(seconds: float) -> str:
    """Write a duration for people: ``12s``, ``3min``, ``1h12``."""
    minutes = int(seconds) // 60
    if minutes < 1:
        return f"{seconds:.0f}s"
    return f"{minutes}min" if minutes < _HOUR_MIN else f"{minutes // _HOUR_MIN}h{minutes % _HOUR_MIN:02}"
