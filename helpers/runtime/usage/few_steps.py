"""Tell a time limit that is too short for steps: the job goes on, attempt after attempt, and gets nowhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from helpers.runtime.attempt.resumption import step_of
from helpers.runtime.usage.words import span_words, time_words

if TYPE_CHECKING:
    from collections.abc import Mapping

_FEW_STEPS = 2
_HALF = 0.5  # of an attempt's time
_EARLY = 0.25  # of the limit: what ends before that was preempted, and says nothing of the limit
_MORE_TIME = 4  # times the limit
_ROUND_MIN = 10


def say_few_steps(
    ledger: list[dict[str, Any]], attempt: int, limit_min: int | None, *, seconds: float, step: int | None
) -> list[str]:
    """Say of an attempt that its limit left little time for steps: starting, loading and saving took the rest.

    That is so where it made one or two, or where its steps would have taken less than half of its time at the pace of
    the run's fastest attempt.

    Args:
        ledger: Of the run.
        attempt: The attempt's number.
        limit_min: Its time limit, in minutes; None where there is none.
        seconds: From its start to its end.
        step: The one that it has saved.

    Returns:
        A line, or none.
    """
    starts = {line["attempt"]: line for line in ledger if line["event"] == "start"}
    if step is None or limit_min is None or attempt not in starts:
        return []
    made = step - _first_step(starts[attempt])
    paces = [(seconds, made)]
    for line in ledger:
        if line["event"] == "end" and line.get("step") is not None and line["attempt"] in starts:
            start = starts[line["attempt"]]
            paces.append((line["time"] - start["time"], line["step"] - _first_step(start)))
    fastest = min((took / steps for took, steps in paces if steps > 0), default=None)
    is_slow = fastest is not None and made * fastest < seconds * _HALF
    if seconds < limit_min * 60 * _EARLY or not (made <= _FEW_STEPS or is_slow):
        return []
    longer = math.ceil(limit_min * _MORE_TIME / _ROUND_MIN) * _ROUND_MIN
    steps = f"{max(made, 0)} step{'' if made == 1 else 's'}"
    said = f"attempt {attempt}: {span_words(seconds)}, {steps}: the time limit leaves little time for steps"
    return [f'{said}; ask for more, time="{time_words(longer)}"']


def _first_step(start: Mapping[str, Any]) -> int:
    """Return the step that an attempt began from."""
    return step_of(start.get("checkpoint")) or 0
