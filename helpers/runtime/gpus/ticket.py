"""What one job wants of this machine's GPUs, as a file tells it that anybody may have written."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from helpers.runtime.files import known_fields

if TYPE_CHECKING:
    from pathlib import Path

TICKET = re.compile(r"ticket-(\d{1,15})-([0-9a-f]{8})\.json")
NOT_OURS = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading may raise that a stranger has written."""

_LONGEST = 64 * 1024  # bytes of a ticket: a run folder's path and some UUIDs
_END_OF_TIME_S = 1e11


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """What one job wants of the GPUs, and what it holds.

    Args:
        number: Its place: first come, first served.
        key: With the number, its name.
        job: The job's id.
        folder: Its run folder.
        pid: Of its supervisor.
        wants: How many GPUs.
        among: The UUIDs of those that it may use, in the order in which it takes them.
        within: Names of the tickets of the jobs that it was submitted in: it shares what these hold.
        takes_used: Whether it takes also GPUs that a program without a ticket uses.
        held: The UUIDs that it holds; empty as long as it waits.
        since: When it began to wait, or to hold, in seconds since the epoch.
        reason: Why it waits.
        uid: Of the owner of the file: not a word in it.
        looked: When its process last looked whether it is its turn, in seconds since the epoch: the file's time.
    """

    number: int
    key: str
    job: str
    folder: str
    pid: int
    wants: int
    among: list[str]
    within: list[str] = field(default_factory=list)
    takes_used: bool = False
    held: list[str] = field(default_factory=list)
    since: float = 0.0
    reason: str = ""
    uid: int = -1
    looked: float = 0.0

    @property
    def name(self) -> str:
        """What tells it from all others."""
        return f"{self.number}-{self.key}"


def read_ticket(descriptor: int, path: Path) -> Ticket | None:
    """Return what an open ticket says; None where that is no ticket."""
    match, status = TICKET.fullmatch(path.name), os.fstat(descriptor)
    try:
        record = read_json_object(descriptor, uid=status.st_uid)
        ticket = Ticket(**known_fields(Ticket, record))
        return replace(
            ticket,
            number=int(match[1]) if match else 0,
            key=match[2] if match else "",
            job=_plain(ticket.job),
            folder=_plain(ticket.folder),
            reason=_plain(ticket.reason),
            among=[_plain(uuid) for uuid in ticket.among],
            within=[_plain(name) for name in ticket.within],
            held=[_plain(uuid) for uuid in ticket.held],
            pid=int(ticket.pid),
            wants=int(ticket.wants),
            since=as_moment(ticket.since),
            uid=status.st_uid,
            looked=status.st_mtime,
        )
    except (OSError, *NOT_OURS):
        return None


def _plain(text: str) -> str:
    """Return what can be shown: no stranger's words move the cursor of a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def as_moment(seconds: float) -> float:
    """Return a point in time that every function of time takes."""
    if not 0 <= float(seconds) < _END_OF_TIME_S:
        raise ValueError(f"{seconds} is no time")
    return float(seconds)


def read_json_object(descriptor: int, *, uid: int) -> dict[str, Any]:
    """Read a JSON object from a plain file of this owner, of no more than its size may be."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != uid:
        raise ValueError("not a plain file of that owner")
    value = json.loads(os.pread(descriptor, _LONGEST, 0))
    if not isinstance(value, dict):
        raise TypeError("not a JSON object")
    return value
