"""Hold all attempts of a run together to its ``total_time``, over any wall limit of one attempt."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from helpers.runtime.attempt.resumption import RESUMED
from helpers.runtime.run.status import State, read_ledger

if TYPE_CHECKING:
    from helpers.runtime.attempt.attempt import Conclusion
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder

CAUSE = "total_time"
"""The cause of an ending by it."""

LEASED = "leased"
"""The ledger's word for a run on this machine that has got its GPUs."""


def total_time_left_s(run: RunFolder, description: Description) -> float | None:
    """Return the seconds that are left to this and all later attempts; None where there is no ``total_time``."""
    if description.total_time_min is None:
        return None
    return max(0.0, description.total_time_min * 60 - _time_used_s(run))


def within_total_time(run: RunFolder, description: Description, conclusion: Conclusion) -> Conclusion:
    """End a run that wants to go on and has used up the time that its attempts together may take.

    An attempt that is stopped for its warning has used its limit less the warning time, so that much is allowed
    to be missing from the total.
    """
    left_s = total_time_left_s(run, description)
    if conclusion.state is not State.REQUEUED or left_s is None or left_s > description.warning_s:
        return conclusion
    saved = "" if conclusion.step is None else f"; saved at step {conclusion.step}"
    detail = f"its total_time of {description.total_time_min} min is used up{saved}"
    ending = replace(conclusion.ending, cause=CAUSE, detail=detail)
    return replace(conclusion, state=State.TIMEOUT, ending=ending, exit_code=1)


def _time_used_s(run: RunFolder) -> float:
    """Return the seconds that all attempts have run, the one under way included.

    What an attempt took whose end nobody could record, on a lost node, is not known and does not count. A run
    that is resumed by hand has its whole time again.
    """
    used, begun = 0.0, None
    for line in read_ledger(run):
        if line["event"] == RESUMED:
            used, begun = 0.0, None
        elif line["event"] in {"start", LEASED}:  # what it waited for GPUs here does not count
            begun = line["time"]
        elif line["event"] == "end" and begun is not None:
            used, begun = used + line["time"] - begun, None
    return used if begun is None else used + time.time() - begun
