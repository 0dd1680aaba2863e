"""Wait for the runs that must have succeeded before this one, by their own record of it.

Slurm has waited already where it queued the job; but it counts a failure that it has forgotten as a success, so
the records are asked again. On this machine nobody else waits.
"""

from __future__ import annotations

import time
from pathlib import Path

from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, State, Status, read_status, record_attempt, write_status

_POLL_S = 0.2
_SETTLE_S = 30.0  # how long the record of a job that Slurm calls a success may take to be seen on this node


def failed_dependency(run: RunFolder) -> Ending | None:
    """Return which of the runs that this one waits for has ended without success; None if none has."""
    description = read_description(run) if run.description.exists() else None
    for folder in description.after if description else ():
        status = read_status(RunFolder(Path(folder)))
        if status is not None and status.state.is_unsuccessful:
            return _ending(folder, status)
    return None


def _ending(folder: str, status: Status | None) -> Ending:
    state = status.state if status else "no record of its end"
    return Ending(cause="dependency_failed", detail=f"{Path(folder).parent.name}: {state}, {folder}")


def waited_for(run: RunFolder, description: Description, job_id: str) -> Ending | None:
    """Return None when all have succeeded; else why this run does not begin, which is recorded as its end."""
    deadline = time.monotonic() + _SETTLE_S if description.cluster == "slurm" else None
    for folder in description.after:
        status = _wait(RunFolder(Path(folder)), run, deadline)
        if status is not None and status.state is State.COMPLETED:
            continue
        ending, state = _ending(folder, status), State.DEPENDENCY_FAILED
        if run.cancel_mark.exists():
            ending, state = Ending(cause="cancelled", detail="while it waited for another job"), State.CANCELLED
        record_attempt(run, event="end", attempt=0, job_id=job_id, state=state, cause=ending.cause)
        write_status(run, Status(state=state, job_id=job_id, attempt=0, ending=ending))
        return ending
    return None


def _wait(other: RunFolder, run: RunFolder, deadline: float | None) -> Status | None:
    """Wait for the end of another run, for its deadline, or for this run's cancel."""
    while True:
        status = read_status(other)
        ended = status is not None and status.state.is_final
        late = deadline is not None and time.monotonic() > deadline
        if ended or late or run.cancel_mark.exists():
            return status
        time.sleep(_POLL_S)
