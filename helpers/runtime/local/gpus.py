"""Lease the GPUs of a run on this machine before its ranks start, and show them to it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.attempt.attempt import Conclusion
from helpers.runtime.attempt.total_time import LEASED
from helpers.runtime.current import END_TIME_VARIABLE, LOCAL_ID_VARIABLE
from helpers.runtime.gpus.lease import Lease, new_ticket, wait_for_gpus
from helpers.runtime.gpus.queue import GpuQueue, leases_folder
from helpers.runtime.gpus.visible import VISIBLE, as_variable, usable_gpus
from helpers.runtime.run.status import Ending, State, Status, record_attempt, write_status
from helpers.runtime.stop import stop_requested

if TYPE_CHECKING:
    from helpers.runtime.current import Run
    from helpers.runtime.gpus.ticket import Ticket
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder

WAITS = "waits"
"""The ledger's word for a run that stands in the queue for GPUs."""


def lease_gpus(run: Run, files: RunFolder, description: Description) -> Lease | Conclusion:
    """Wait for the GPUs that were asked for, and make them all that this process and its ranks see.

    The time limit counts from here on: a wait costs a run none of its time.

    Args:
        run: The attempt.
        files: Of the run.
        description: What was submitted.

    Returns:
        The lease; or how the run has ended, where it was stopped meanwhile or no lease can be had.
    """
    job, begun = os.environ[LOCAL_ID_VARIABLE], time.time()

    def tell(reason: str) -> None:
        print(f"[helpers] {reason}", file=sys.stderr, flush=True)
        write_status(files, Status(state=State.PENDING, job_id=job, attempt=run.attempt))
        record_attempt(files, event=WAITS, attempt=run.attempt, job_id=job, reason=reason, durable=False)

    try:
        lease = wait_for_gpus(
            GpuQueue(leases_folder(os.environ)),
            _ticket(job, files, description),
            is_stopped=lambda: stop_requested() or files.cancel_mark.exists(),
            tell=tell,
        )
    except (InvalidRequest, OSError) as error:
        words = error.message if isinstance(error, InvalidRequest) else str(error)
        print(f"[helpers] {error}", file=sys.stderr, flush=True)
        return Conclusion(state=State.FAILED, ending=Ending(cause="exited", exit_code=1, detail=words), exit_code=1)
    if lease is None:
        return _stopped(files)
    _show(run, lease, waited_s=time.time() - begun)
    write_status(files, Status(state=State.RUNNING, job_id=job, attempt=run.attempt))
    record_attempt(files, event=LEASED, attempt=run.attempt, job_id=job, gpus=lease.ticket.held, durable=False)
    return lease


def _ticket(job: str, files: RunFolder, description: Description) -> Ticket:
    ticket = new_ticket(os.environ, usable_gpus(os.environ), job=job, folder=str(files.path), wants=description.gpus)
    if len(ticket.among) < ticket.wants:
        raise InvalidRequest(f"{ticket.wants} GPUs were asked for, and {len(ticket.among)} can be used here now.")
    return ticket


def _show(run: Run, lease: Lease, *, waited_s: float) -> None:
    os.environ.update(lease.variables)
    os.environ[VISIBLE] = as_variable(lease.ticket.held)
    if run.end_time is not None:
        os.environ[END_TIME_VARIABLE] = str(int(run.end_time + waited_s))
    print(f"[helpers] has {VISIBLE}={os.environ[VISIBLE]}, after {waited_s:.0f} s", file=sys.stderr, flush=True)


def _stopped(files: RunFolder) -> Conclusion:
    if files.cancel_mark.exists():
        ending = Ending(cause="cancelled", detail="while it waited for GPUs")
        return Conclusion(state=State.CANCELLED, ending=ending, exit_code=1)
    ending = Ending(cause="preempted", detail="this machine asked it to stop; nothing had begun")
    return Conclusion(state=State.PREEMPTED, ending=ending, exit_code=1)
