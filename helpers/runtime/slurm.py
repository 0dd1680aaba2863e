"""What a job asks of Slurm from inside: when it ends, whether it still runs, and to be requeued."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S = 60
_RETRY_DELAYS_S = (0.5, 2, 5)
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


def end_time(job: str) -> float | None:
    """Return when the job's time limit is reached, in seconds since the epoch.

    ``SLURM_JOB_END_TIME`` exists only from Slurm 23.02 on, and goes stale when an administrator changes the
    limit, so the controller is asked. None where it does not answer or there is no limit.
    """
    text = _ask(["squeue", "--noheader", f"--jobs={job}", "--format=%e"], SLURM_TIME_FORMAT="%s")
    return float(text) if text is not None and text.isdigit() else None


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
    for delay in (*_RETRY_DELAYS_S, None):
        words = _requeue_once(job)
        if words is None:
            return "requeued"
        state = job_state(job)
        if state is not None and state.startswith(_WAITS_ALREADY):
            return "waits"
        if state is not None and state.startswith(_HAS_ENDED):
            return "ended"
        print(f"[helpers] scontrol requeue {job}: {words} (the job is {state})", file=sys.stderr)
        if delay is None or _is_final_refusal(words):
            break
        time.sleep(delay)
    return "refused"


def move_dependents(job: str, successor: str) -> list[str]:
    """Let whoever waits for this job wait for its successor; return their ids.

    Without that they would begin when this job ends, which has not finished its work.
    """
    waiting = _ask(["squeue", "--noheader", "--states=PENDING", "--format=%i|%E"]) or ""
    moved = []
    for line in waiting.splitlines():
        dependent, _, condition = line.strip().partition("|")
        plain = re.sub(r"\([a-z]+\)", "", condition)  # "afterok:12(unfulfilled)"
        changed = re.sub(rf"(?<=[:+]){re.escape(job)}(?![\d_])", successor, plain)
        if dependent == successor or changed == plain:
            continue
        if _ask(["scontrol", "update", f"JobId={dependent}", f"Dependency={changed}"]) is None:
            print(f"[helpers] job {dependent} waits for {job} and could not be moved to {successor}", file=sys.stderr)
        else:
            moved.append(dependent)
    return moved


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
