"""Ask Slurm how jobs stand: one ``squeue`` for all, ``sacct`` only for what the queue has forgotten."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable
from helpers.runtime.slurm import without_filters
from helpers.runtime.status import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TIMEOUT_S = 60
_SEPARATOR = "\x1f"
_EXIT_CODE_SHIFT, _SIGNAL_MASK = 8, 0x7F  # squeue prints the exit code as wait(2) gives it

_STATES = {
    "PENDING": State.PENDING, "CONFIGURING": State.PENDING, "REQUEUED": State.REQUEUED,
    "REQUEUE_HOLD": State.PENDING, "REQUEUE_FED": State.PENDING, "SPECIAL_EXIT": State.PENDING,
    "RESV_DEL_HOLD": State.PENDING, "RUNNING": State.RUNNING, "COMPLETING": State.RUNNING,
    "SUSPENDED": State.RUNNING, "STOPPED": State.RUNNING, "RESIZING": State.RUNNING,
    "SIGNALING": State.RUNNING, "STAGE_OUT": State.RUNNING, "COMPLETED": State.COMPLETED,
    "CANCELLED": State.CANCELLED, "FAILED": State.FAILED, "BOOT_FAIL": State.NODE_FAIL,
    "NODE_FAIL": State.NODE_FAIL, "TIMEOUT": State.TIMEOUT, "DEADLINE": State.TIMEOUT,
    "OUT_OF_MEMORY": State.OUT_OF_MEMORY, "PREEMPTED": State.PREEMPTED, "REVOKED": State.CANCELLED,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What Slurm says of one job.

    Args:
        state: In the words of this library.
        word: In Slurm's own.
        reason: Why it waits, or why it ended; Slurm's word, such as ``"Priority"``.
        exit_code: Of the batch script, where Slurm tells it.
        signal: Number of the signal that ended the batch script, where Slurm tells it.
        nodes: Slurm's node list.
    """

    state: State
    word: str
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    nodes: str = ""


def observe(job_ids: Iterable[str]) -> dict[str, Observation]:
    """Return what Slurm knows of these jobs; one that it has forgotten is left out.

    Raises:
        ClusterUnreachable: If the controller does not answer.
    """
    wanted = set(job_ids)
    if not wanted:
        return {}
    seen = _ask_squeue(wanted)
    missing = wanted - set(seen)
    return {**seen, **_ask_sacct(missing)} if missing else seen


def _ask_squeue(job_ids: set[str]) -> dict[str, Observation]:
    form = ",".join(f"{field}:{_SEPARATOR}" for field in ("JobArrayID", "State", "Reason", "exit_code", "NodeList"))
    ids = ",".join(sorted({job_id.partition("_")[0] for job_id in job_ids}))  # an array is asked for as one
    done = _run(["squeue", "--noheader", "--array", "--states=all", f"--jobs={ids}", f"--Format={form}"])
    if done.returncode != 0:
        if "Invalid job id" in done.stderr:
            return {}
        raise ClusterUnreachable(f"squeue: {done.stderr.strip()}", hint="sinfo")
    seen = {}
    for line in done.stdout.splitlines():
        job_id, word, reason, wait_status, nodes, _ = line.split(_SEPARATOR)
        state = _STATES.get(word, State.RUNNING)
        if state is State.PENDING and reason == "DependencyNeverSatisfied":
            state = State.DEPENDENCY_FAILED
        seen[job_id] = Observation(
            state=state,
            word=word,
            reason=reason,
            exit_code=int(wait_status) >> _EXIT_CODE_SHIFT,
            signal=int(wait_status) & _SIGNAL_MASK or None,
            nodes=nodes,
        )
    return {job_id: seen[job_id] for job_id in job_ids if job_id in seen}


def _ask_sacct(job_ids: Iterable[str]) -> dict[str, Observation]:
    """Ask the accounting; where there is none, or it is down, nothing is known."""
    fields = "JobID,State,Reason,ExitCode,NodeList"
    command = ["sacct", "--noheader", "--parsable2", "--allocations", f"--format={fields}"]
    done = _run([*command, f"--jobs={','.join(sorted(job_ids))}"])
    if done.returncode != 0:
        return {}
    seen = {}
    for line in done.stdout.splitlines():
        job_id, word, reason, code, nodes = line.split("|")
        exit_code, _, signal = code.partition(":")
        word = word.split()[0]  # "CANCELLED by 1000"
        seen[job_id] = Observation(
            state=_STATES.get(word, State.RUNNING),
            word=word,
            reason=reason,
            exit_code=int(exit_code or 0),
            signal=int(signal or 0) or None,
            nodes=nodes,
        )
    return seen


def find_by_script(script: str) -> str | None:
    """Return the id of the queued job whose batch script this is; a run's script is no other job's."""
    try:
        done = _run(["squeue", "--me", "--noheader", "--states=all", f"--format=%A{_SEPARATOR}%o"])
    except ClusterUnreachable:
        return None
    for line in done.stdout.splitlines():
        job_id, _, command = line.partition(_SEPARATOR)
        if command.strip() == script:
            return job_id.strip()
    return None


def cancel(job_ids: Sequence[str]) -> None:
    """Ask Slurm to end these jobs, waiting or running.

    Raises:
        ClusterUnreachable: If the controller does not answer.
    """
    done = _run(["scancel", *job_ids])
    if done.returncode != 0 and "Invalid job id" not in done.stderr:
        raise ClusterUnreachable(f"scancel: {done.stderr.strip()}", hint=f"scancel {' '.join(job_ids)}")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**without_filters(os.environ), "SLURM_TIME_FORMAT": "%s"}
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterUnreachable(f"{command[0]}: {error}", hint="sinfo") from error


def ask_slurm(command: list[str]) -> str:
    """Return what one of Slurm's commands prints.

    Raises:
        ClusterUnreachable: If it fails or does not answer.
    """
    done = _run(command)
    if done.returncode != 0:
        raise ClusterUnreachable(f"Slurm is configured here and does not answer: {done.stderr.strip()}", hint="sinfo")
    return done.stdout
