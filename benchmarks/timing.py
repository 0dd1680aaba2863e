"""Time alternatives side by side, so that a machine that slows down slows them all."""

from __future__ import annotations

import random
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


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of the report that is no ratio of times.

    Args:
        what: What is measured.
        shown: The number with its unit.
        ratio: The number by what is allowed.
        goal: The largest that it may be; None where there is no goal.
    """

    what: str
    shown: str
    ratio: float
    goal: float | None

    def __str__(self) -> str:
        verdict = "" if self.goal is None else f"  {'met' if self.ratio <= self.goal else 'MISSED'}"
        return f"{self.what:42s} {self.shown}{verdict}"


def interleave(alternatives: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int = 1) -> dict[str, Times]:
    """Time each alternative once a round, in a drawn order, after rounds that do not count.

    What one leaves behind, such as a disk that is still busy, then meets each of the others as often.

    Returns:
        The times by name, in seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for number in range(warm_up + rounds):
        for name in random.sample(list(alternatives), len(alternatives)):
            start = time.perf_counter()
            alternatives[name]()
            if number >= warm_up:
                times[name].append(time.perf_counter() - start)
    return {name: Times(tuple(values)) for name, values in times.items()}
