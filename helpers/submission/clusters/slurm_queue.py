"""Ask Slurm how jobs stand: one ``squeue`` for all, ``sacct`` only for what the queue has forgotten."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable
from helpers.runtime.attempt.slurm import without_filters
from helpers.runtime.run.status import State
from helpers.submission.clusters.slurm_program import LOOK, run_slurm, silence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from subprocess import CompletedProcess

_NO_ACCOUNTING = "accounting storage is disabled"
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
        raise silence("squeue", done.stderr)
    groups: dict[str, Observation] = {}
    single: dict[str, Observation] = {}
    for line in done.stdout.splitlines():
        row, word, reason, wait_status, nodes, _ = line.split(_SEPARATOR)
        state = _STATES.get(word, State.RUNNING)
        if state is State.PENDING and reason == "DependencyNeverSatisfied":
            state = State.DEPENDENCY_FAILED
        observation = Observation(
            state=state,
            word=word,
            reason=reason,
            exit_code=int(wait_status) >> _EXIT_CODE_SHIFT,
            signal=int(wait_status) & _SIGNAL_MASK or None,
            nodes=nodes,
        )
        if row in job_ids:
            single[row] = observation
        elif state.is_final and _is_group(row):  # of elements that never began, one line
            groups.update(dict.fromkeys(_elements_in(row, job_ids), observation))
    return {**groups, **single}


def _ask_sacct(job_ids: set[str]) -> dict[str, Observation]:
    """Ask the accounting; where there is none, nothing is known.

    An array is asked for as one: of its elements that never began it has one line, which is found by no element.

    Raises:
        ClusterUnreachable: If there is one and it does not answer.
    """
    fields = "JobID,State,Reason,ExitCode,NodeList"
    ids = ",".join(sorted({job_id.partition("_")[0] for job_id in job_ids}))
    done = _run(["sacct", "--noheader", "--parsable2", "--allocations", f"--format={fields}", f"--jobs={ids}"])
    if done.returncode != 0:
        if _NO_ACCOUNTING in done.stderr:
            return {}
        raise silence("sacct", done.stderr)
    groups: dict[str, Observation] = {}
    single: dict[str, Observation] = {}
    for line in done.stdout.splitlines():
        row, word, reason, code, nodes = line.split("|")
        observation = _accounted(word.split()[0], reason, code, nodes)  # "CANCELLED by 1000"
        (single if row in job_ids else groups).update(dict.fromkeys(_elements_in(row, job_ids), observation))
    return {**groups, **single}


def _accounted(word: str, reason: str, code: str, nodes: str) -> Observation:
    """Return what the accounting's words mean for a job that the queue has forgotten."""
    exit_code, _, signal = code.partition(":")
    state = _STATES.get(word, State.RUNNING)
    if not state.is_final:  # its end was never recorded: the controller has lost its state, say
        state, reason = State.LOST, f"the queue has forgotten it, and the accounting still calls it {word}"
    return Observation(
        state=state,
        word=word,
        reason=reason,
        exit_code=int(exit_code or 0),
        signal=int(signal or 0) or None,
        nodes="" if nodes == "None assigned" else nodes,
    )


def _is_group(row: str) -> bool:
    return row.isdigit() or "[" in row


def _elements_in(row: str, job_ids: set[str]) -> list[str]:
    """Return which of these jobs a line is about: ``48``, ``48_3``, ``48_[0-2,7,10-20:5%2]``.

    An array's own number stands for the elements that have no line of their own, until the list of them is there.
    """
    if row in job_ids:
        return [row]
    array, _, group = row.partition("_[")
    ranges = [_read_range(text) for text in group.rstrip("]").partition("%")[0].split(",") if text]
    elements = [(job_id, number) for job_id in job_ids for base, _, number in [job_id.partition("_")] if base == array]
    return [job_id for job_id, number in elements if not group or any(int(number) in range_ for range_ in ranges)]


def _read_range(text: str) -> range:
    """Read ``7``, ``0-9`` or ``0-98:2``; a long list ends in ``42...``, and stands for all from there on."""
    numbers, _, step = text.partition(":")
    first, _, last = numbers.removesuffix("...").partition("-")
    if text.endswith("..."):
        return range(int(first or 0), sys.maxsize)
    return range(int(first), int(last or first) + 1, int(step or 1))


def find_by_script(script: str, *, besides: Collection[str] = ()) -> str | None:
    """Return the id of the job or array whose batch script this is, queued or just ended; a run's is no other's.

    Args:
        script: Its path.
        besides: Ids under which it was queued before.
    """
    try:
        done = _run(["squeue", "--me", "--noheader", "--states=all", f"--format=%F{_SEPARATOR}%o"])
    except ClusterUnreachable:
        return None
    for line in done.stdout.splitlines():
        job_id, _, command = line.partition(_SEPARATOR)
        if command.strip() == script and job_id.strip() not in besides:
            return job_id.strip()
    return None


def cancel(job_ids: Sequence[str]) -> None:
    """Ask Slurm to end these jobs, waiting or running; elements of one array are one request to the controller.

    Raises:
        ClusterUnreachable: If the controller does not answer.
    """
    command = ["scancel", *_by_arrays(job_ids)]
    done = _run(command, hint=shlex.join(command))
    if done.returncode != 0 and "Invalid job id" not in done.stderr:
        raise silence("scancel", done.stderr, hint=shlex.join(command))


def _by_arrays(job_ids: Iterable[str]) -> list[str]:
    """Write ids as Slurm's commands read them: ``48``, ``48_3``, ``48_[0-2,7]``."""
    arrays: dict[str, list[int]] = {}
    for job_id in job_ids:
        array, _, number = job_id.partition("_")
        arrays.setdefault(array, []).extend([int(number)] if number else [])
    return [f"{array}{_group(sorted(numbers))}" for array, numbers in arrays.items()]


def _group(numbers: Sequence[int]) -> str:
    if len(numbers) <= 1:
        return "".join(f"_{number}" for number in numbers)
    rows = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])  # consecutive ones
    ranges = [[number for _, number in row] for _, row in rows]
    return f"_[{','.join(str(row[0]) if len(row) == 1 else f'{row[0]}-{row[-1]}' for row in ranges)}]"


def _run(command: list[str], *, hint: str = LOOK) -> CompletedProcess[str]:
    return run_slurm(command, {**without_filters(os.environ), "SLURM_TIME_FORMAT": "%s"}, hint=hint)


def ask_slurm(command: list[str]) -> str:
    """Return what one of Slurm's commands prints.

    Raises:
        ClusterUnreachable: If it fails or does not answer.
    """
    done = _run(command)
    if done.returncode != 0:
        raise silence(command[0], done.stderr)
    return done.stdout
