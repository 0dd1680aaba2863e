"""Turn how a run ended into the value or the exception that its caller gets."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from helpers import errors
from helpers.errors import JobFacts
from helpers.runtime.attempt.attempt import ended_from_outside
from helpers.runtime.attempt.death import signal_name
from helpers.runtime.attempt.dependencies import failed_dependency
from helpers.runtime.files import read_end
from helpers.runtime.rank.call import load_exception
from helpers.runtime.run.element import array_of
from helpers.runtime.run.outcome import read_outcome
from helpers.runtime.run.status import Ending, State, Status, read_status
from helpers.runtime.usage.peak_memory import peak_in_accounting
from helpers.submission.jobs.gpu_memory import gpu_out_of_memory
from helpers.submission.jobs.sentences import error_for

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.clusters.slurm_queue import Observation

_NO_ROOM = 2**16  # bytes
_TAIL_LINES = 20
_TAIL_BYTES = 32768


class RemoteTraceback(Exception):
    """The traceback of the job, as text: it stands as the cause of the exception that is raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def exception_of(run: RunFolder, description: Description, status: Status) -> BaseException:
    """Return the exception for a run that ended without a result."""
    ending = status.ending or Ending(cause=status.state.lower())
    facts = _facts(run, status, ending)
    if ending.cause == "raised" and ending.rank is not None:
        return _own_exception(run, description, status, ending, facts)
    return error_for(description, ending, facts)


_NEVER_BEGAN = (State.CANCELLED, State.DEPENDENCY_FAILED)
_NO_LOG = 53
"""What stands for a signal where slurmstepd could not open the script's output ("0:53", RaisedSignal:53)."""


def status_from_scheduler(run: RunFolder, job_id: str, seen: Observation | None) -> Status:
    """Say how a run ended that could not say so itself: its batch script was ended from outside."""
    status = read_status(run)
    attempt = status.attempt if status else 0
    failed = failed_dependency(run) if seen is None or seen.state in _NEVER_BEGAN else None
    if status is None and failed is not None:  # Slurm calls a job that it takes out of the queue cancelled
        return Status(state=State.DEPENDENCY_FAILED, job_id=job_id, attempt=attempt, ending=failed)
    if seen is None:
        said = ended_from_outside(run)
        if said is not None:
            return Status(state=said.state, job_id=job_id, attempt=attempt, ending=said.ending)
        if run.cancel_mark.exists():  # an element that had not begun leaves no trace in the queue
            cancelled = Ending(cause="cancelled")
            return Status(state=State.CANCELLED, job_id=job_id, attempt=attempt, ending=cancelled)
        ending = Ending(cause="lost", detail=_why_no_word(run, job_id))
        return Status(state=State.LOST, job_id=job_id, attempt=attempt, ending=ending)
    state, cause = seen.state, seen.state.lower()
    if state is State.COMPLETED:  # the script ended well and left no word: its folder was lost or is late
        state, cause = State.LOST, "lost"
    if state is State.FAILED and seen.signal == _NO_LOG:
        words = f"the node could not open the batch script's log in {(array_of(run) or run).logs}"
        ending = Ending(cause="launch", node=seen.nodes or None, detail=words)
        return Status(state=state, job_id=job_id, attempt=attempt, ending=ending)
    if state is State.FAILED:
        cause = "killed" if seen.signal else "exited"
    name = signal_name(seen.signal) if seen.signal else None
    code = seen.exit_code or (0 if cause == "exited" else None)  # a 0 beside a signal or a limit says nothing
    peak = peak_in_accounting(job_id) if state is State.OUT_OF_MEMORY else None
    ending = Ending(cause=cause, exit_code=code, signal=name, node=seen.nodes or None, detail=_reason(seen), peak=peak)
    return Status(state=state, job_id=job_id, attempt=attempt, ending=ending)


def _why_no_word(run: RunFolder, job_id: str) -> str:
    words = "neither the queue nor the accounting knows the job any more"
    if job_id.startswith("local-"):
        words = "its process has ended and left no word"
    with contextlib.suppress(OSError):
        if shutil.disk_usage(run.path).free < _NO_ROOM:
            words += f", and the disk of {run.path} is full"
    return words


def _reason(seen: Observation) -> str:
    """Return why it ended; what a cancelled job had waited for before is no reason."""
    return "" if seen.reason in {"", "None"} or seen.state is State.CANCELLED else seen.reason


def _own_exception(
    run: RunFolder, description: Description, status: Status, ending: Ending, facts: JobFacts
) -> BaseException:
    rank = ending.rank or 0
    outcome = read_outcome(run.attempt(status.attempt).outcome(rank))
    remote = RemoteTraceback(outcome.traceback if outcome else ending.detail)
    full = gpu_out_of_memory(description.name, ending.detail, facts)
    if full is not None:
        full.__cause__ = remote
        return full
    error = load_exception(run, status.attempt, rank)
    if error is None:
        hint = f"helpers logs {facts.job_id}"
        failed = errors.JobFailed(f"The function raised {ending.detail}", facts=facts, hint=hint)
        failed.__cause__ = remote
        return failed
    error.__cause__ = remote
    error.add_note("\n".join(facts.lines(with_log=False)))
    return error


def _facts(run: RunFolder, status: Status, ending: Ending) -> JobFacts:
    log = _log_of(run, status.attempt, ending.rank)
    return JobFacts(
        job_id=status.job_id,
        folder=str(run.path),
        node=ending.node,
        rank=ending.rank,
        exit_code=ending.exit_code,
        signal=ending.signal,
        log=str(log) if log else None,
        log_tail=tail(log) if log else "",
    )


def _log_of(run: RunFolder, attempt: int, rank: int | None) -> Path | None:
    folder = run.logs / str(attempt)
    candidates = [folder / f"{rank or 0}.err", folder / f"{rank or 0}.out", run.batch_log]
    if rank is None:
        candidates = [run.batch_log, *candidates]
    return next((path for path in candidates if path.exists() and path.stat().st_size), None)


def tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a log, without reading the whole of it."""
    return "\n".join(read_end(path, _TAIL_BYTES).replace("\r", "\n").splitlines()[-lines:])
