"""Time alternatives side by side, so that a machine that slows down slows them all."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Times:
    """Seconds of one alternative, a value a round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value: a single slow round does not move it."""
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{self.median * 1e3:8.1f} ms ({min(self.values) * 1e3:.1f}–{max(self.values) * 1e3:.1f})"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One ratio of the report.

    Args:
        what: What is measured.
        ours: Our time.
        other: The time that it is compared with.
        than: What that is.
        goal: The largest ratio that we allow ourselves; None where there is no goal.
    """

    what: str
    ours: Times
    other: Times
    than: str
    goal: float | None

    @property
    def ratio(self) -> float:
        """Our median by theirs."""
        return self.ours.median / self.other.median

    def __str__(self) -> str:
        verdict = (
            "" if self.goal is None else f" goal ≤ {self.goal:g}: {'met' if self.ratio <= self.goal else 'MISSED'}"
        )
        return f"{self.what:42s} {self.ours}  against {self.than:22s} {self.other}  ratio {self.ratio:6.3f}{verdict}"


def interleave(alternatives: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int = 1) -> dict[str, Times]:
    """Time each alternative once a round, in turn, after rounds that do not count.

    Returns:
        The times by name, in seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for number in range(warm_up + rounds):
        for name, run in alternatives.items():
            start = time.perf_counter()
            run()
            if number >= warm_up:
                times[name].append(time.perf_counter() - start)
    return {name: Times(tuple(values)) for name, values in times.items()}
