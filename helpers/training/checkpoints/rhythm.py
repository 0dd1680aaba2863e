"""How often the state is saved: every so many steps, or by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.training.durations import read_seconds

if TYPE_CHECKING:
    from datetime import timedelta


def read_rhythm(save_every: str | float | timedelta) -> tuple[int | None, float | None]:
    """Return the number of steps or the seconds between two saves.

    Raises:
        InvalidRequest: If it cannot be read, or there is nothing between two saves.
    """
    if isinstance(save_every, bool) or not isinstance(save_every, int):
        return None, read_seconds(save_every)
    if save_every < 1:
        raise InvalidRequest(f"save_every must be at least 1 step, got {save_every}.", hint='save_every="10min"')
    return save_every, None
