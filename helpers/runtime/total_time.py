"""Hold all attempts of a run together to its ``total_time``, over any wall limit of one attempt."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from helpers.runtime.status import State, read_ledger

if TYPE_CHECKING:
    from helpers.runtime.attempt import Conclusion
    from helpers.runtime.description import Description
    from helpers.runtime.run_folder import RunFolder


def within_total_time(run: RunFolder, description: Description, conclusion: Conclusion) -> Conclusion:
    """End a run that wants to go on and has used up the time that its attempts together may take.

    An attempt that is stopped for its warning has used its limit less the warning time, so that much is allowed
    to be missing from the total.
    """
    if conclusion.state is not State.REQUEUED or description.total_time_min is None:
        return conclusion
    if _time_used_s(run) < description.total_time_min * 60 - description.warning_s:
        return conclusion
    detail = f"its total_time of {description.total_time_min} min is used up; saved at step {conclusion.step}"
    ending = replace(conclusion.ending, cause="timeout", detail=detail)
    return replace(conclusion, state=State.TIMEOUT, ending=ending, exit_code=1)


def _time_used_s(run: RunFolder) -> float:
    """Return the seconds that all attempts have run, the one under way included."""
    used, begun = 0.0, None
    for line in read_ledger(run):
        if line["event"] == "start":
            begun = line["time"]
        elif line["event"] == "end" and begun is not None:
            used, begun = used + line["time"] - begun, None
    return used if begun is None else used + time.time() - begun
