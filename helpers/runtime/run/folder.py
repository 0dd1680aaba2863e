"""Name the files of a run: the vocabulary that the login node and the job share.

::

    runs/<name>/<run id>/
        run.json                what was submitted; complete before the job is queued
        submission.sh           the batch script
        jobs.jsonl              the ledger: each attempt's start and ending
        status.json             how the run stands, for people and for the caller's watcher
        provenance.json         code, packages, machine
        usage.json              what the newest attempt had, and what it used
        private/                0700: the pickled call, results and exceptions
        attempts/<n>/           what the ranks of attempt n report
        logs/<n>/<rank>.out     what a rank printed; logs/batch.log: what the batch script printed
        checkpoints/            made by a Checkpointer
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path


_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PRIVATE_FILE = 0o600


def new_run_id() -> str:
    """Return an id of our own, known before the scheduler gives its: UTC time and six hex digits."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


@dataclass(frozen=True)
class AttemptFolder:
    """The files of one attempt (one start of the job)."""

    path: Path

    def outcome(self, rank: int) -> Path:
        """Return the file in which ``rank`` tells how its function ended."""
        return self.path / f"rank-{rank}.json"

    def started(self, rank: int) -> Path:
        """Return the file that exists once ``rank`` has called the function."""
        return self.path / f"started-{rank}"

    def usage(self, rank: int) -> Path:
        """Return the file in which ``rank`` tells what it uses."""
        return self.path / f"usage-{rank}.json"

    @property
    def requeue_mark(self) -> Path:
        """The file that asks for a requeue; rank 0 writes it when every rank's state is durable."""
        return self.path / "requeue.json"

    @property
    def rendezvous(self) -> Path:
        """The file in which rank 0 publishes the address that the other ranks connect to."""
        return self.path / "rendezvous.json"


@dataclass(frozen=True)
class RunFolder:
    """The files of one run, over all its attempts."""

    path: Path

    @property
    def description(self) -> Path:
        """What was submitted (``run.json``)."""
        return self.path / "run.json"

    @property
    def script(self) -> Path:
        """The batch script."""
        return self.path / "submission.sh"

    @property
    def ledger(self) -> Path:
        """One line for each attempt's start and one for its ending."""
        return self.path / "jobs.jsonl"

    @property
    def status(self) -> Path:
        """How the run stands."""
        return self.path / "status.json"

    @property
    def provenance(self) -> Path:
        """Code, packages and machine of the last attempt."""
        return self.path / "provenance.json"

    @property
    def usage(self) -> Path:
        """What the newest attempt that has ended had, and what it used."""
        return self.path / "usage.json"

    @property
    def changes(self) -> Path:
        """What the project had that was not committed, at submission (``git diff``)."""
        return self.path / "changes.diff"

    @property
    def private(self) -> Path:
        """Pickles: readable and writable by the owner alone."""
        return self.path / "private"

    @property
    def call(self) -> Path:
        """The pickled function and its arguments."""
        return self.private / "call.pkl"

    @property
    def first_call(self) -> Path:
        """The call as it was submitted, where submitit's ``checkpoint`` has put another in its place."""
        return self.private / "first-call.pkl"

    @property
    def calls(self) -> Path:
        """Of an array: the pickled function, once, and each element's arguments."""
        return self.private / "calls.pkl"

    def result(self, rank: int) -> Path:
        """Return the file of the pickled value that ``rank`` returned."""
        return self.private / f"result-{rank}.pkl"

    def exception(self, attempt: int, rank: int) -> Path:
        """Return the file of the pickled exception that ``rank`` raised in ``attempt``."""
        return self.private / f"exception-{attempt}-{rank}.pkl"

    @property
    def checkpoints(self) -> Path:
        """The folder that a Checkpointer makes: where it exists, the run can resume."""
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        """What was printed."""
        return self.path / "logs"

    @property
    def batch_log(self) -> Path:
        """What the batch script printed: set-up lines and the scheduler's own words."""
        return self.logs / "batch.log"

    @property
    def cancel_mark(self) -> Path:
        """The file that says that a stop is a cancel: there is nothing to go on with."""
        return self.path / "cancelled"

    @property
    def resume_mark(self) -> Path:
        """The file that exists while somebody takes the run up again."""
        return self.path / "resuming"

    def attempt(self, number: int) -> AttemptFolder:
        """Return the files of attempt ``number``, counted from 0."""
        return AttemptFolder(self.path / "attempts" / str(number))

    def attempts(self) -> list[int]:
        """Return the numbers of the attempts that have started, in order."""
        try:
            names = [entry.name for entry in (self.path / "attempts").iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdigit())

    def begin_attempt(self) -> int:
        """Claim the next attempt number; making its folder is what claims it, so no two starts share one."""
        (self.path / "attempts").mkdir(exist_ok=True)
        number = len(self.attempts())
        while True:
            try:
                self.attempt(number).path.mkdir()
            except FileExistsError:
                number += 1
            else:
                (self.logs / str(number)).mkdir(parents=True, exist_ok=True)
                return number

    def create(self) -> None:
        """Make the folder with what a submission writes into.

        Raises:
            InvalidRequest: If the folder cannot be made.
        """
        try:
            self.logs.mkdir(parents=True)
            self.path.chmod(stat.S_IMODE(self.path.stat().st_mode) & ~_FOR_OTHERS)  # see sharing.py
            self.private.mkdir(mode=0o700)
            self.private.chmod(0o700)
        except OSError as error:
            raise InvalidRequest(
                f"The run folder {self.path} cannot be made: {error.strerror}.",
                hint="Submit from a folder that you can write to, or set HELPERS_RUNS=/path/to/runs.",
            ) from error


def check_private(folder: Path) -> None:
    """Refuse to unpickle from a folder that somebody else owns or can write to.

    Raises:
        PermissionError: Naming the owner or the mode that is wrong; for a link, which leads who knows where.
    """
    _check_owner(folder, folder.lstat())


def write_private(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file in ``private/``, whole or not at all, readable by the owner alone.

    Raises:
        OSError: If the disk does not take it; no file is left then.
    """
    write_whole(path, data, mode=_PRIVATE_FILE, durable=durable)


def read_private(path: Path) -> bytes:
    """Return the bytes of a file in ``private/`` that nobody but this user can have written.

    Raises:
        PermissionError: As :func:`check_private`, of the folder and of the file.
        FileNotFoundError: If there is no such file.
    """
    check_private(path.parent)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError(f"{path} is a link: nothing is unpickled from it.") from error
        raise
    with os.fdopen(descriptor, "rb") as file:
        _check_owner(path, os.fstat(descriptor))
        return file.read()


def _check_owner(path: Path, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(f"{path} is a link: nothing is unpickled from it.")
    if status.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to user id {status.st_uid}: nothing is unpickled from it.")
    if status.st_mode & 0o022:
        mode = "700" if stat.S_ISDIR(status.st_mode) else "600"
        raise PermissionError(
            f"{path} can be written by others (mode {status.st_mode & 0o777:o}): nothing is unpickled "
            f"from it. If its content is yours: chmod {mode} {path}"
        )
