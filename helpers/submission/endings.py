"""Turn how a run ended into the value or the exception that its caller gets."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import errors
from helpers.errors import JobError, JobFacts
from helpers.runtime.attempt import ended_from_outside
from helpers.runtime.call import load_exception
from helpers.runtime.dependencies import failed_dependency
from helpers.runtime.outcome import read_outcome
from helpers.runtime.status import Ending, State, Status, read_status
from helpers.submission.advice import largest_memory_mb, memory_given_mb, more_memory, more_time
from helpers.submission.amounts import memory_text
from helpers.submission.gpu_memory import gpu_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.runtime.description import Description
    from helpers.runtime.run_folder import RunFolder
    from helpers.submission.slurm_queue import Observation

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
    make = _BY_CAUSE.get(ending.cause)
    if make is None:
        return errors.JobFailed(f"{description.name} failed: {ending.detail or ending.cause}.", facts=facts)
    return make(description, ending, facts)


_NEVER_BEGAN = (State.CANCELLED, State.DEPENDENCY_FAILED)


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
        ending = Ending(cause="lost", detail="neither the queue nor the accounting knows the job any more")
        return Status(state=State.LOST, job_id=job_id, attempt=attempt, ending=ending)
    state, cause = seen.state, seen.state.lower()
    if state is State.COMPLETED:  # the script ended well and left no word: its folder was lost or is late
        state, cause = State.LOST, "lost"
    if state is State.FAILED:
        cause = "killed" if seen.signal else "exited"
    name = _signal_name(seen.signal) if seen.signal else None
    code = seen.exit_code or (0 if cause == "exited" else None)  # a 0 beside a signal or a limit says nothing
    ending = Ending(cause=cause, exit_code=code, signal=name, node=seen.nodes or None, detail=_reason(seen))
    return Status(state=state, job_id=job_id, attempt=attempt, ending=ending)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # Slurm's 125 is its word for the memory limit
        return f"signal {number}"


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
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.replace("\r", "\n").splitlines()[-lines:])


def _killed(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    where = "" if ending.rank is None else f" (rank {ending.rank})"
    detail = f" {ending.detail}." if ending.detail else ""
    return errors.JobKilled(
        f"{description.name} was ended by {ending.signal or 'a signal'}{where}.{detail}",
        facts=facts,
        hint=f"helpers logs {facts.job_id}",
    )


def _exited(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    where = "" if ending.rank is None else f" (rank {ending.rank})"
    detail = f" {ending.detail}." if ending.detail else ""
    return errors.JobExited(
        f"{description.name} ended with exit code {ending.exit_code}{where}.{detail}",
        facts=facts,
        hint=f"helpers logs {facts.job_id}",
    )


def _out_of_memory(description: Description, _ending: Ending, facts: JobFacts) -> JobError:
    given_mb = memory_given_mb(description, facts.folder)
    given = memory_text(given_mb) if given_mb else "the default"
    whose = "it asked for" if "mem" in description.resources else "it was given"
    return errors.JobOutOfMemory(
        f"{description.name} used more host memory than {whose} ({given} per node).",
        facts=facts,
        hint=more_memory(given_mb, largest_memory_mb(description)),
    )


def _how_to_go_on(description: Description) -> str:
    if description.command:
        return f"a program that saves at SIGTERM and ends with exit code {os.EX_TEMPFAIL} goes on by itself"
    return "with a helpers.training.Checkpointer in its loop it goes on by itself"


def _timeout(description: Description, _ending: Ending, facts: JobFacts) -> JobError:
    limit = "its time limit" if description.time_min is None else f"its time limit of {description.time_min} min"
    return errors.TimeLimitReached(
        f"{description.name} reached {limit}.",
        facts=facts,
        hint=_how_to_go_on(description) + (f"; or ask for more: {more}" if (more := more_time(description)) else ""),
    )


def _preempted(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    why = ending.detail or "it was made to give way to another job"
    return errors.JobPreempted(
        f"{description.name} was stopped and does not go on: {why}.",
        facts=facts,
        hint=f"{_how_to_go_on(description)}; or submit with requeue=True",
    )


def _no_progress(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    return errors.JobPreempted(
        f"{description.name} does not go on: {ending.detail}.",
        facts=facts,
        hint=f"look at what it does first: helpers logs {facts.job_id} --attempt 0"
        if description.command
        else 'save more often: Checkpointer(…, save_every="2min"); or ask for more time',
    )


def _node_failed(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    return errors.NodeFailed(
        f"The node {ending.node or 'of the job'} was lost while {description.name} ran.",
        facts=facts,
        hint="submit again; requeue=True lets Slurm do so",
    )


def _cancelled(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    detail = f" ({ending.detail})" if ending.detail else ""
    has_checkpoint = (Path(facts.folder) / "checkpoints").is_dir()
    resume = f"go on from its checkpoint: helpers resume {facts.job_id}"
    return errors.JobCancelled(
        f"{description.name} was cancelled{detail}.",
        facts=facts,
        hint=resume if has_checkpoint else f"helpers logs {facts.job_id}",
    )


def _dependency(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    return errors.DependencyFailed(
        f"{description.name} never started: a job that it waits for did not succeed. {ending.detail}".strip(),
        facts=facts,
        hint="helpers status shows it, and the rerun of the job that failed is: helpers rerun JOB",
    )


def _setup(_description: Description, ending: Ending, facts: JobFacts) -> JobError:
    return errors.SetupFailed(
        f"This set-up line failed with exit code {ending.exit_code}, so the function was not called: {ending.detail}",
        facts=facts,
        hint=f"try it on its own: bash -c {shlex.quote(ending.detail)}",
    )


def _environment(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    where = f" on {ending.node}" if ending.node else ""
    return errors.EnvironmentMismatch(
        f"{description.name} could not start{where}: {ending.detail}.",
        facts=facts,
        hint="keep the environment until the job has ended, in a folder that the nodes see; then submit again",
    )


def _unsaved(_description: Description, ending: Ending, facts: JobFacts) -> JobError:
    return errors.ResultNotSaved(
        f"The function returned, but {ending.detail}.",
        facts=facts,
        hint="return numbers, arrays or paths; save large objects into helpers.current_run().folder",
    )


def _unloaded(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    return errors.JobFailed(
        f"{description.function} could not be loaded in the job: {ending.detail}",
        facts=facts,
        hint=f"{description.python} -c 'import {description.function.split('.')[0]}'",
    )


def _lost(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    return errors.JobLost(
        f"What became of {description.name} is not known: {ending.detail or 'its script left no word'}.",
        facts=facts,
        hint=f"sacct -j {facts.job_id}",
    )


_BY_CAUSE: dict[str, Callable[[Description, Ending, JobFacts], JobError]] = {
    "killed": _killed,
    "exited": _exited,
    "out_of_memory": _out_of_memory,
    "timeout": _timeout,
    "preempted": _preempted,
    "cannot_resume": _preempted,
    "no_progress": _no_progress,
    "node_fail": _node_failed,
    "cancelled": _cancelled,
    "dependency_failed": _dependency,
    "setup": _setup,
    "environment": _environment,
    "unsaved": _unsaved,
    "unloaded": _unloaded,
    "lost": _lost,
}
