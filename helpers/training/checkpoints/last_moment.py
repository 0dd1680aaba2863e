"""Leave before the scheduler's warning where a save takes longer than what it leaves.

The warning before the time limit is chosen at submission, when nobody knows how long a save takes. Once one has been
measured, training leaves in time for another, after one that may be under way.
"""

from __future__ import annotations

import math
import time

_SAVES = 2.5  # one that is under way, the last one, and what may make them slower than the one that was measured
_MARGIN_S = 5.0  # to the end of the step


class LastMoment:
    """When training must leave, so that its last save is done before the time limit.

    Args:
        end_time: The time limit, in seconds since the epoch; None where there is none.
    """

    def __init__(self, end_time: float | None) -> None:
        self._end = end_time
        self._half = math.inf if end_time is None else (time.time() + end_time) / 2
        self._at = math.inf

    def measured(self, save_s: float) -> None:
        """Take note of how long a save took; half of the time is left for training whatever it was."""
        if self._end is not None:
            self._at = max(self._half, self._end - _SAVES * save_s - _MARGIN_S)

    def has_come(self) -> bool:
        """Say whether it is time to leave."""
        return time.time() >= self._at
