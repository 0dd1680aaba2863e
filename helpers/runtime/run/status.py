"""How a run stands: one small file, replaced as a whole, that people and the caller's watcher read."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from helpers.runtime.files import append_json_line, known_fields, read_json, read_json_lines, write_json

if TYPE_CHECKING:
    from typing import Any

    from helpers.runtime.run.folder import RunFolder


class State(StrEnum):
    """The states of a run, by Slurm's words where it has one."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    REQUEUED = "REQUEUED"  # left with its state saved; waits for its next attempt
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    LOST = "LOST"

    @property
    def is_final(self) -> bool:
        """Whether the run has ended for good."""
        return self not in {State.PENDING, State.RUNNING, State.REQUEUED}

    @property
    def is_unsuccessful(self) -> bool:
        """Whether it has ended for good, and not as it should."""
        return self.is_final and self is not State.COMPLETED


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The most host memory that was in use on one node.

    Args:
        mem_mb: In MiB.
        source: ``cgroup``, the kernel's own count, with the files that it kept in memory; or ``accounting``, what
            Slurm saw when it looked, every 30 seconds or so, of the largest process.
        node: Which.
    """

    mem_mb: int
    source: str
    node: str = ""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Why a run ended, as far as it is known.

    Args:
        cause: A word: ``returned``, ``raised``, ``exited``, ``killed``, ``unsaved``, ``unloaded``, ``setup``,
            ``no_progress``, ``too_short``, ``cannot_resume``, or the scheduler's state in lower case.
        rank: The rank that failed first.
        node: Its node.
        exit_code: Of the process that failed first.
        signal: Name of the signal that ended it.
        detail: A sentence for people: the exception's line, the set-up line, the scheduler's reason.
        peak: Of a run that had too little host memory, where it is known: the most that was in use on a node.
    """

    cause: str
    rank: int | None = None
    node: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""
    peak: Peak | None = None


@dataclass(frozen=True, kw_only=True)
class Status:
    """How a run stands.

    Args:
        state: See :class:`State`.
        job_id: The scheduler's id of the last attempt.
        attempt: Its number, from 0.
        ending: Why it ended; None as long as it has not.
        updated: When this was written, in seconds since the epoch.
    """

    state: State
    job_id: str
    attempt: int
    ending: Ending | None = None
    updated: float = 0.0


def read_status(run: RunFolder) -> Status | None:
    """Return how the run stands; None before its first attempt."""
    record = read_json(run.status)
    if record is None:
        return None
    facts = known_fields(Status, record)
    return Status(**{**facts, "state": State(record["state"]), "ending": _read_ending(record["ending"])})


def _read_ending(record: dict[str, Any] | None) -> Ending | None:
    if record is None:
        return None
    peak = record.get("peak")
    return Ending(**{**known_fields(Ending, record), "peak": Peak(**known_fields(Peak, peak)) if peak else None})


def write_status(run: RunFolder, status: Status) -> None:
    """Replace the run's status."""
    write_json(run.status, {**asdict(status), "updated": time.time()})


def record_attempt(run: RunFolder, *, durable: bool = True, **facts: Any) -> None:
    """Add a line to the ledger: an attempt's start or its ending."""
    append_json_line(run.ledger, {"time": time.time(), **facts}, durable=durable)


def read_ledger(run: RunFolder) -> list[dict[str, Any]]:
    """Return the ledger's lines, oldest first."""
    return read_json_lines(run.ledger)
