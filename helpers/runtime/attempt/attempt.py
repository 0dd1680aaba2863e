"""Begin and end an attempt: what the batch script (or the local supervisor) does around the ranks.

The protocol, in the order of its decisions:

1. All ranks returned, and none asked for a requeue: the job succeeded.
2. A cancel stays a cancel, and the time limit is one, whatever the ranks made of the signal.
3. A rank that failed outweighs the rest: the job failed, and it is *its* error that is shown. Where a rank
   was killed first, the errors of the others only follow from that.
4. A rank that broke off because of the request to stop has failed no more than what follows from that.
5. A mark for a requeue, left by rank 0 when every rank's state was durable, outweighs the exit code.
   A program that ended because it was asked to stop, and left none, does not go on.
6. A process that the signal ended before the function was called has lost nothing: it begins again.
7. Anything else is a death that nobody reported: a signal, or the memory limit.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from helpers.runtime.attempt.death import Death, died_by_itself, first_death, signal_name, unseen_death
from helpers.runtime.attempt.memory_limit import reached_memory_limit
from helpers.runtime.attempt.resumption import (
    ASKED,
    can_resume,
    has_started,
    how_it_could_resume,
    newest_checkpoint,
    newest_step,
    why_not_again,
)
from helpers.runtime.exit_code import SIGNAL_BASE
from helpers.runtime.files import read_end, read_json
from helpers.runtime.run.outcome import Kind, Outcome, read_outcome
from helpers.runtime.run.status import (
    Ending,
    State,
    Status,
    read_status,
    record_attempt,
    write_status,
)
from helpers.runtime.stop import OUT_OF_TIME

if TYPE_CHECKING:
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import AttemptFolder, RunFolder

ATTEMPT_LINE = "[helpers] attempt "
"""How the batch log's first line of an attempt begins."""

_JOB_CANCELLED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+( DUE TO TIME LIMIT)? \*\*\*")
_TAKEN_BACK = "Job is pending execution"
"""What ``srun`` says where the job was preempted after its script had begun, and waits in the queue already."""
_SIGNAL_MARGIN_S = 60  # Slurm may send the warning signal up to 60 s early
_TAIL_BYTES = 65536


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What became of an attempt.

    Args:
        state: REQUEUED asks whoever called to start the next attempt.
        ending: Why, as far as it is known.
        exit_code: What the batch script ends with.
        step: The step that is durable, where the ranks left for a requeue.
    """

    state: State
    ending: Ending
    exit_code: int
    step: int | None = None


def begin(run: RunFolder, description: Description, *, job_id: str, nodes: str) -> int | Ending:
    """Start the next attempt, or say why there is none.

    Returns:
        The attempt's number; or the ending, where the run has ended already or must not run again.
    """
    status = read_status(run)
    if status is not None and status.state is State.COMPLETED and status.ending is not None:
        return status.ending
    checkpoint = newest_checkpoint(run)
    refusal = why_not_again(run, description, checkpoint)
    if refusal is not None and status is not None and status.state.is_final:
        return refusal  # started by hand after its end: why it had ended stays, and no start is recorded
    attempt = run.begin_attempt()
    record_attempt(run, event="start", attempt=attempt, job_id=job_id, nodes=nodes, checkpoint=checkpoint)
    if refusal is None:
        write_status(run, Status(state=State.RUNNING, job_id=job_id, attempt=attempt))
        return attempt
    state = {"no_progress": State.FAILED, "too_short": State.TIMEOUT}.get(refusal.cause, State.PREEMPTED)
    finish(run, attempt, job_id, Conclusion(state=state, ending=refusal, exit_code=1))
    return refusal


def conclude(  # noqa: PLR0911 -- one return for each line of the protocol above
    run: RunFolder, description: Description, attempt: int, *, exit_code: int, end_time: float | None
) -> Conclusion:
    """Judge an attempt by what its ranks reported, by the mark, and only then by the exit code.

    Args:
        run: The run's files.
        description: What was submitted.
        attempt: The attempt's number.
        exit_code: Of ``srun``, or of the first process that failed.
        end_time: When the time limit is reached, in seconds since the epoch; None where there is none.
    """
    files = run.attempt(attempt)
    outcomes = {rank: read_outcome(files.outcome(rank)) for rank in range(description.processes)}
    reported = {rank: outcome for rank, outcome in outcomes.items() if outcome is not None}
    log, mark = _tail(run), read_json(files.requeue_mark)
    all_returned = len(reported) == description.processes and all(o.kind is Kind.RETURNED for o in reported.values())
    if all_returned and mark is None:
        return Conclusion(state=State.COMPLETED, ending=Ending(cause="returned"), exit_code=0)
    if from_outside := ended_from_outside(run, exit_code=exit_code, step=mark["step"] if mark is not None else None):
        return from_outside
    death = first_death(log)
    killed_first = death is not None and death.by_signal and death.rank not in reported
    failed = [(outcome.time, rank) for rank, outcome in reported.items() if outcome.failed]
    broken_off = [outcome.stop_time or outcome.time for outcome in reported.values() if outcome.kind is Kind.BROKEN_OFF]
    first_failed = min(failed, default=(math.inf, 0))[0]
    if broken_off and mark is None and not died_by_itself(death, reported) and first_failed > min(broken_off):
        return _broken_off(run, files, reported, description, end_time)
    if failed and not killed_first:
        return _failure(min(failed)[1], reported)
    if not failed and mark is not None:
        return _left(reported, description, end_time, step=mark["step"])
    stopped = any(outcome.kind is Kind.STOPPED for outcome in reported.values())
    if not failed and stopped and not died_by_itself(death, reported):
        return _stopped(reported, description, end_time)
    death = death or unseen_death(outcomes, exit_code)
    if death.by_stop_signal and not has_started(files) and description.requeue is not False:
        return _left(reported, description, end_time, step=newest_step(run))
    if _TAKEN_BACK in log and not has_started(files):
        return _taken_back(run, description)
    conclusion = _unreported_death(files, outcomes, death, log)
    if description.container and conclusion.ending.cause == "exited" and exit_code and not has_started(files):
        return _no_container(run, attempt, description, conclusion)
    return conclusion


def finish(run: RunFolder, attempt: int, job_id: str, conclusion: Conclusion) -> None:
    """Write an attempt's end into the ledger and the status."""
    ending = conclusion.ending
    record_attempt(
        run,
        event="end",
        attempt=attempt,
        job_id=job_id,
        state=conclusion.state,
        cause=ending.cause,
        step=conclusion.step,
        detail=ending.detail,
    )
    write_status(run, Status(state=conclusion.state, job_id=job_id, attempt=attempt, ending=ending))


def fail_setup(run: RunFolder, attempt: int, job_id: str, *, line: str, exit_code: int) -> None:
    """Record that a set-up line failed: nothing is run."""
    ending = Ending(cause="setup", exit_code=exit_code, detail=line)
    finish(run, attempt, job_id, Conclusion(state=State.FAILED, ending=ending, exit_code=1))


def _failure(rank: int, reported: dict[int, Outcome]) -> Conclusion:
    outcome = reported[rank]
    ending = Ending(
        cause=str(outcome.kind),
        rank=rank,
        node=outcome.node,
        exit_code=outcome.exit_code,
        detail=outcome.error,
    )
    return Conclusion(state=State.FAILED, ending=ending, exit_code=outcome.exit_code or 1)


def _left(
    reported: dict[int, Outcome], description: Description, end_time: float | None, *, step: int | None
) -> Conclusion:
    """Tell the time limit from a preemption by the job's real end, not by the time that has passed."""
    stops = [outcome.stop_time for outcome in reported.values() if outcome.stop_time is not None]
    stopped = min(stops, default=time.time())
    signals = {outcome.stop_signal for outcome in reported.values() if outcome.stop_signal}
    by_time_limit = OUT_OF_TIME in signals or (
        end_time is not None and end_time - stopped <= description.warning_s + _SIGNAL_MARGIN_S
    )
    named = ",".join(sorted(signals - {OUT_OF_TIME})) or None
    ending = Ending(cause="timeout" if by_time_limit else "preempted", signal=named)
    if description.command and not stops:
        ending = Ending(cause=ASKED)
    if description.requeue is False:
        state = State.TIMEOUT if by_time_limit else State.PREEMPTED
        return Conclusion(state=state, ending=ending, exit_code=1, step=step)
    return Conclusion(state=State.REQUEUED, ending=ending, exit_code=0, step=step)


def _broken_off(
    run: RunFolder,
    files: AttemptFolder,
    reported: dict[int, Outcome],
    description: Description,
    end_time: float | None,
) -> Conclusion:
    """Judge ranks that the request to stop ended before a step could be agreed on: the newest checkpoint is left."""
    words = next(outcome.error for outcome in reported.values() if outcome.kind is Kind.BROKEN_OFF)
    if has_started(files) and not can_resume(run, description):
        description, words = replace(description, requeue=False), f"{words}; {how_it_could_resume(description)}"
    left = _left(reported, description, end_time, step=newest_step(run))
    return replace(left, ending=replace(left.ending, detail=words))


def _stopped(reported: dict[int, Outcome], description: Description, end_time: float | None) -> Conclusion:
    """Judge a program that was asked to stop, and did so without asking to be run again."""
    left = _left(reported, replace(description, requeue=False), end_time, step=None)
    words = next(outcome.error for outcome in reported.values() if outcome.kind is Kind.STOPPED)
    return replace(left, ending=replace(left.ending, detail=f"{words}; {how_it_could_resume(description)}"))


def ended_from_outside(run: RunFolder, *, exit_code: int = 1, step: int | None = None) -> Conclusion | None:
    """Tell a cancel and the time limit by what slurmstepd has printed of them into the batch log.

    The controller only says COMPLETING while the batch script still runs, and nothing once it has forgotten.

    Args:
        run: The run's files.
        exit_code: Of the ranks.
        step: The step that is durable, where the ranks have left a mark for a requeue.
    """
    match = _JOB_CANCELLED.search(_tail(run))
    saved = step is not None
    if match is None or (match[1] and saved):
        return None
    cause = "timeout" if match[1] else "cancelled"
    ending = Ending(cause=cause, detail="the checkpoint stays" if saved else "")
    state = State.TIMEOUT if match[1] else State.CANCELLED
    return Conclusion(state=state, ending=ending, exit_code=exit_code or 1, step=step)


def _unreported_death(files: AttemptFolder, outcomes: dict[int, Outcome | None], death: Death, log: str) -> Conclusion:
    stopped = any(o is not None and o.kind is Kind.LEFT for o in outcomes.values())
    detail = "asked to stop, and the ranks did not agree on a step in time" if stopped else ""
    state, cause, name = State.FAILED, "exited", None
    if reached_memory_limit(log):
        state, cause, name = State.OUT_OF_MEMORY, "out_of_memory", "SIGKILL"
    elif death.by_signal:
        cause, name = "killed", signal_name(death.exit_code - SIGNAL_BASE)
    elif death.exit_code == 0:
        detail = detail or f"no outcome was written to {files.path}"
    ending = Ending(
        cause=cause, rank=death.rank, node=death.node, exit_code=death.exit_code, signal=name, detail=detail
    )
    return Conclusion(state=state, ending=ending, exit_code=death.exit_code or 1)


def _taken_back(run: RunFolder, description: Description) -> Conclusion:
    ending = Ending(cause="preempted", detail="Slurm took the job back before its ranks had started")
    state = State.PREEMPTED if description.requeue is False else State.REQUEUED
    code = 1 if state is State.PREEMPTED else 0
    return Conclusion(state=state, ending=ending, exit_code=code, step=newest_step(run))


def _no_container(run: RunFolder, attempt: int, description: Description, conclusion: Conclusion) -> Conclusion:
    """Say that no rank came into being in the image: the engine's or its Python's last words tell why."""
    rank = conclusion.ending.rank or 0
    try:
        printed = (run.logs / str(attempt) / f"{rank}.err").read_text(encoding="utf-8", errors="replace")
    except OSError:
        printed = ""
    words = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "it said nothing")
    detail = f"nothing began in the container {description.container}: {words}"
    return replace(conclusion, ending=replace(conclusion.ending, cause="container", detail=detail))


def _tail(run: RunFolder) -> str:
    """Return the end of the batch log: what the scheduler said of this attempt."""
    try:
        text = read_end(run.batch_log, _TAIL_BYTES)
    except FileNotFoundError:
        return ""
    _, _, since = text.rpartition(ATTEMPT_LINE)
    return since
