"""Let one process write to a folder of checkpoints: the one that began last.

A job that is requeued while its former processes still run (a node that was lost and came back) would
otherwise have two writers. The later one takes the lease; the earlier one finds that out before it commits.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import psutil

from helpers.errors import HelpersError
from helpers.runtime.files import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "lease.json"


class FolderTaken(HelpersError, RuntimeError):
    """Another process writes to this folder of checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who holds the lease.

    Args:
        attempt: The start of the job, from 0.
        host: Name of its machine.
        pid: Its process.
        started: When that process started, in seconds since the epoch: process ids are used again.
        token: Tells two holders in one process apart.
    """

    attempt: int
    host: str
    pid: int
    started: float
    token: str

    def lives_elsewhere(self) -> bool:
        """Say whether this is another process of this machine that still runs."""
        if self.host != socket.gethostname() or self.pid == os.getpid():
            return False
        try:
            process = psutil.Process(self.pid)
            # the kernel counts from boot in hundredths of a second; reading it twice may differ by one
            return abs(process.create_time() - self.started) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class Lease:
    """The right to write to a folder, taken at once.

    Args:
        folder: Exists.
        attempt: The start of the job that asks.

    Raises:
        FolderTaken: If a later attempt holds it, or another living process of the same attempt.
    """

    def __init__(self, folder: Path, attempt: int) -> None:
        self._path = folder / _NAME
        held = self._read()
        if held is not None and held.attempt > attempt:
            raise FolderTaken(f"Attempt {held.attempt} writes to {folder}; this is attempt {attempt}.")
        if held is not None and held.attempt == attempt and held.lives_elsewhere():
            raise FolderTaken(
                f"Process {held.pid} of this machine writes to {folder}.",
                hint="Give each run a folder= of its own.",
            )
        started = psutil.Process().create_time()
        self._own = Holder(
            attempt=attempt,
            host=socket.gethostname(),
            pid=os.getpid(),
            started=started,
            token=secrets.token_hex(8),
        )
        write_json(self._path, asdict(self._own))

    def check(self) -> None:
        """Make sure that the lease is still ours; called right before a commit.

        Raises:
            FolderTaken: If somebody else has taken it.
        """
        held = self._read()
        if held is None or held.token == self._own.token:
            return
        same = held.host == self._own.host and held.pid == self._own.pid
        who = (
            "Another Checkpointer of this process"
            if same
            else f"Attempt {held.attempt} (process {held.pid} on {held.host})"
        )
        raise FolderTaken(
            f"{who} writes to {self._path.parent} now; nothing more is saved from here.",
            hint='one for all that the run keeps: Checkpointer({"a": …, "b": …})' if same else "",
        )

    def _read(self) -> Holder | None:
        try:
            value = read_json(self._path)
            return None if value is None else Holder(**value)
        except (ValueError, TypeError):  # damaged: whoever comes takes it
            return None
