"""One step of the ladder: what was looked at, what was found, and the cure where that is not as it should be."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "fault"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    Args:
        name: What was looked at.
        verdict: ``"fault"`` where jobs will fail by it, ``"warning"`` where they may, or are slower than they could be.
        found: In a sentence.
        cure: What to do, where it is not ok; a line that can be pasted where there is one.
        seconds: How long the look has taken.
        where: The machine's name.
    """

    name: str
    verdict: Verdict
    found: str
    cure: str = ""
    seconds: float = 0.0
    where: str = ""


def step_here(name: str, verdict: Verdict, found: str, *, cure: str = "") -> Step:
    """Return a step that was taken on this machine; for the arguments see :class:`Step`."""
    return Step(name=name, verdict=verdict, found=found, cure=cure, where=platform.node())
