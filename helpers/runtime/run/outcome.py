"""What one rank reports of the end of its function, in a file that the batch script reads."""

from __future__ import annotations

import socket
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from helpers.runtime.files import known_fields, read_json, write_json
from helpers.runtime.stop import stop_request

if TYPE_CHECKING:
    from pathlib import Path


NOT_WRITTEN = "its value cannot be written"
"""How the line of an unsaved value begins that the disk did not take."""


class Kind(StrEnum):
    """How a rank's function ended."""

    RETURNED = "returned"
    RAISED = "raised"
    EXITED = "exited"  # sys.exit with a code other than 0
    LEFT = "left"  # state saved, to go on after a requeue
    BROKEN_OFF = "broken_off"  # by the request to stop: before the call, or by what that did to its children
    STOPPED = "stopped"  # a program that ended, without success, because it was asked to stop
    UNSAVED = "unsaved"  # returned, but the value cannot be pickled, or not be written
    UNLOADED = "unloaded"  # the call could not be loaded; the function was never called


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of one rank's function.

    Args:
        kind: How it ended.
        time: When, in seconds since the epoch.
        node: Where.
        error: One line, ``Class: message``; empty where there was none.
        traceback: As Python prints it; empty where there was none.
        exit_code: What the process ends with.
        stop_signal: The signal that asked it to stop, or ``stop.OUT_OF_TIME``, if any.
        stop_time: When that came, in seconds since the epoch.
    """

    kind: Kind
    time: float
    node: str
    error: str = ""
    traceback: str = ""
    exit_code: int = 0
    stop_signal: str | None = None
    stop_time: float | None = None

    @property
    def failed(self) -> bool:
        """Whether this rank makes the job a failure."""
        return self.kind not in {Kind.RETURNED, Kind.LEFT, Kind.BROKEN_OFF, Kind.STOPPED}

    def write(self, path: Path) -> None:
        """Write the outcome whole."""
        write_json(path, asdict(self))


def outcome_now(kind: Kind, *, error: str = "", traceback: str = "", exit_code: int = 0) -> Outcome:
    """Describe an end that happens here and now, with the request to stop that preceded it."""
    request = stop_request()
    return Outcome(
        kind=kind,
        time=time.time(),
        node=socket.gethostname(),
        error=error,
        traceback=traceback,
        exit_code=exit_code,
        stop_signal=request.signal_name if request else None,
        stop_time=request.time if request else None,
    )


def read_outcome(path: Path) -> Outcome | None:
    """Return the outcome in ``path``; None where the rank has not reported."""
    record = read_json(path)
    return None if record is None else Outcome(**{**known_fields(Outcome, record), "kind": Kind(record["kind"])})
