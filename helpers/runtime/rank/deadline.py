"""Leave for the requeue while there is time, where a step takes longer than the scheduler waits.

Training leaves at a boundary between two steps. If none comes before the time limit, the job would be killed
at it and not come back, although there is a checkpoint to go on from. So a thread of each rank waits for the
last moment, and ends its process then, without the step that is under way. Nobody needs that for a
preemption: Slurm kills such a job and requeues it by itself.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from helpers.runtime import stop
from helpers.runtime.attempt.resumption import newest_step
from helpers.runtime.run.outcome import Kind, outcome_now

if TYPE_CHECKING:
    from helpers.runtime.current import Run
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import AttemptFolder

_MARGIN_S = 15  # for the batch script to start Python and to ask for the requeue
_SAVING_MARGIN_S = 2  # Slurm waits another KillWait, 30 s if nothing else is set, for a save that is under way
_EARLY_S = 60  # Slurm may send its warning so much before the time that was asked for
_MARK_S = 10  # how long the others wait for rank 0's mark
_POLL_S = 0.2


def leave_in_time(run: Run, description: Description) -> None:
    """End this process shortly before the time limit, if it was warned and does not leave by itself."""
    files = run.attempt_files
    if run.end_time is None or files is None or description.requeue is False:
        return
    stop.wait_for_stop()
    request = stop.stop_request()
    if request is None:
        return
    early = run.end_time - request.time > description.warning_s + _EARLY_S
    if early and request.signal_name != stop.OUT_OF_TIME:
        return  # a preemption, or somebody's own signal
    margin_s = min(_MARGIN_S, description.warning_s / 2)
    while time.time() < run.end_time - (_SAVING_MARGIN_S if stop.is_leaving() else margin_s):
        time.sleep(_POLL_S)
    step = None if run.files is None else newest_step(run.files)
    if step is not None and _all_agree(run, files, step):
        message = f"helpers: no step ended in time; leaving without it, to go on from step {step}"
        print(message, file=sys.stderr, flush=True)
        outcome_now(Kind.LEFT).write(files.outcome(run.rank))
        os._exit(0)


def _all_agree(run: Run, files: AttemptFolder, step: int) -> bool:
    """Let rank 0 ask for the requeue, and the others wait until it has."""
    mark = files.requeue_mark
    if run.is_main:
        with contextlib.suppress(OSError):
            run.ask_for_requeue(step=step)
    deadline = time.monotonic() + _MARK_S
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return mark.exists()
