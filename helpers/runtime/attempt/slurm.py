"""What a job asks of Slurm from inside: when it ends, whether it still runs, and to be requeued."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from helpers.runtime.duration import read_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S = 60
_RETRY_DELAYS_S = (0.5, 2, 5)
_SILENT_S, _SILENT_PAUSE_S = 600, 5  # how long a controller that is restarted may take to answer, and when to ask again
_FILTERS = ("SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_")
_HAS_ENDED = ("CANCELLED", "COMPLETED", "TIMEOUT", "FAILED", "DEADLINE", "OUT_OF_MEMORY")
_WAITS_ALREADY = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "PREEMPTED", "NODE_FAIL")


def job_id(environment: dict[str, str] | os._Environ[str] = os.environ) -> str:
    """Return this job's id as people write it: ``4711``, or ``4711_3`` for an element of an array."""
    array = environment.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{environment['SLURM_ARRAY_TASK_ID']}"
    return environment["SLURM_JOB_ID"]


def read_job_id(printed: str) -> str | None:
    """Find the id among the lines that a site may add to what ``sbatch --parsable`` prints.

    It is the last that is a bare number, or ``number;cluster``; None where there is none.
    """
    for line in reversed(printed.splitlines()):
        match = re.fullmatch(r"(\d+)(?:;.*)?", line.strip()) or re.match(r"Submitted batch job (\d+)", line)
        if match:
            return match[1]
    return None


def without_filters(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what changes or hides a part of what Slurm's commands print."""
    return {name: value for name, value in environment.items() if not name.startswith(_FILTERS)}


def end_time(job: str, *, told: float | None = None) -> float | None:
    """Return when the job's time limit is reached, in seconds since the epoch.

    ``SLURM_JOB_END_TIME`` exists only from Slurm 23.02 on, and goes stale when an administrator changes the
    limit, so the controller is asked. It gives a job that is to be preempted the end of the grace: such an end,
    without a limit that is shorter, is not believed.

    Args:
        job: The job's id.
        told: What this was when the attempt began; it holds where the controller does not answer.

    Returns:
        None where there is no limit.
    """
    text = _ask(["squeue", "--noheader", f"--jobs={job}", "--format=%S %l %e"], SLURM_TIME_FORMAT="%s")
    if not text:
        return told
    start, limit, end = [*text.split(), "", ""][:3]
    limit_s = read_duration(limit)
    if limit_s is None or not (start.isdigit() and end.isdigit()):
        return None
    return float(end) if told is None else max(float(end), min(told, float(start) + limit_s))


def shorten(job: str, minutes: int) -> bool:
    """Lower the time limit of this job, which its owner may; say whether that was done."""
    return _ask(["scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}"]) is not None


def job_state(job: str) -> str | None:
    """Return the job's state in Slurm's words, with flags such as ``COMPLETING``; None without an answer."""
    text = _ask(["scontrol", "--oneliner", "show", "job", job])
    if text is None:
        return None
    words = dict(word.partition("=")[::2] for word in text.split() if "=" in word)
    return words.get("JobState")


def has_requeued(job: str) -> str | None:
    """Return Slurm's word where it has taken this job's node away and requeued it; None where it has not."""
    state = job_state(job)
    return state if state is not None and state.startswith(_WAITS_ALREADY) else None


def requeue(job: str) -> str:
    """Ask for the next attempt of this job, once.

    Returns:
        ``"requeued"``; ``"waits"`` where Slurm has requeued it already; ``"ended"`` where somebody has
        cancelled it or it has ended otherwise; ``"refused"`` where requeueing is not allowed here.
    """
    silent_until, delays = time.monotonic() + _SILENT_S, iter(_RETRY_DELAYS_S)
    while True:
        words = _requeue_once(job)
        if words is None:
            return "requeued"
        state = job_state(job)
        if state is not None and state.startswith(_WAITS_ALREADY):
            return "waits"
        if state is not None and state.startswith(_HAS_ENDED):
            return "ended"
        print(f"[helpers] scontrol requeue {job}: {words} (the job is {state})", file=sys.stderr)
        is_silent = state is None and time.monotonic() < silent_until
        delay = _SILENT_PAUSE_S if is_silent else next(delays, None)
        if delay is None or _is_final_refusal(words):
            return "refused"
        time.sleep(delay)


def move_dependents(job: str, successor: str) -> list[str]:
    """Let whoever waits for this job wait for its successor; return their ids.

    Without that they would begin when this job ends, which has not finished its work. Who waits for the whole
    array of which this is an element waits for the successor as well.
    """
    waiting = _ask(["squeue", "--noheader", "--states=PENDING", "--format=%i|%E"]) or ""
    moved = []
    for line in waiting.splitlines():
        element, _, condition = line.strip().partition("|")
        dependent = element.partition("_[")[0]  # the elements that have not begun are changed together
        changed = _moved(condition, job, successor)
        if dependent.partition("_")[0] == successor or changed is None:
            continue
        if _ask(["scontrol", "update", f"JobId={dependent}", f"Dependency={changed}"]) is None:
            print(f"[helpers] job {dependent} waits for {job} and could not be moved to {successor}", file=sys.stderr)
        else:
            moved.append(dependent)
    return moved


def _moved(condition: str, job: str, successor: str) -> str | None:
    """Return a condition such as ``afterok:12(unfulfilled)`` with the successor in it; None where that is as it was.

    ``after:`` is left as it is: it asks for the begin of a job.
    """
    plain = re.sub(r"\([a-z]+\)", "", condition)
    separator = "?" if "?" in plain else ","  # all are to be met, or one of them
    terms = [more for term in plain.split(separator) for more in _moved_term(term, job, successor)]
    changed = separator.join(terms)
    return None if changed == plain.replace("_*", "") else changed


def _moved_term(term: str, job: str, successor: str) -> list[str]:
    kind, _, whom = term.partition(":")
    whom = whom.removesuffix("_*")  # of an array, all elements
    if kind == "after":
        return [term]
    if whom == job:
        return [f"{kind}:{successor}"]
    if whom == job.partition("_")[0]:
        return [f"{kind}:{whom}", f"{'afterok' if kind == 'aftercorr' else kind}:{successor}"]
    return [f"{kind}:{whom}" if whom else term]


def _requeue_once(job: str) -> str | None:
    """Return None on success, else Slurm's words. ``Incomplete``: a finished job is not revived."""
    command = ["scontrol", "requeue", "Incomplete", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _is_final_refusal(words: str) -> bool:
    return any(text in words for text in ("disabled", "denied", "Invalid", "not supported", "No such file"))


def _ask(command: list[str], **variables: str) -> str | None:
    environment = {**without_filters(os.environ), **variables}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
