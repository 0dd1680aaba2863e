"""The queue for this machine's GPUs: a folder that all users write to, with a ticket for each job.

::

    /run/lock/slurm-torch-helpers/          mode 1777; /tmp/slurm-torch-helpers where there is no such /run/lock
        lock                                held (flock) while tickets are read or written, for milliseconds
        ticket-<number>-<random>.json       one job's: what it wants, what it holds; held (flock) as long as it lives
        idle-<number>-<random>.json         since when which of its GPUs have been idle

A ticket counts as long as somebody has it locked. The kernel lets go of a lock when the last process is gone that has
the open file, however it went: nothing has to be swept up after a ``kill -9`` or a power cut. The ranks inherit the
file from their supervisor, since it is they who have memory on the GPU: a supervisor that is killed does not free what
its ranks still compute on.

The folder belongs to everybody, so what is in it is read as what a stranger wrote: no symbolic link is followed,
nothing but small plain files is read, the file's owner says whose a ticket is, and nobody else changes or removes it.
An existing file is opened without ``O_CREAT``, which the kernel forbids in such a folder (``fs.protected_regular``).
Source: open(2), flock(2); https://docs.kernel.org/admin-guide/sysctl/fs.html.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.gpus.ticket import NOT_OURS, TICKET, Ticket, as_moment, read_json_object, read_ticket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER_VARIABLE = "HELPERS_LEASES"
_NAME = "slurm-torch-helpers"
_LOCK_PATIENCE_S = 60.0
_LOCK_POLL_S = 0.01
_EVERYBODY = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO | stat.S_ISVTX
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def leases_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the queue, whether it exists yet or not: the same for all users of the machine."""
    if environment.get(FOLDER_VARIABLE):
        return Path(environment[FOLDER_VARIABLE])
    usual = Path("/run/lock")
    with contextlib.suppress(OSError):
        if usual.stat().st_mode & _EVERYBODY == _EVERYBODY:
            return usual / _NAME
    return Path("/tmp", _NAME)  # noqa: S108 -- a folder for everybody is what is wanted; see above how it is used


class GpuQueue:
    """The tickets of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others from reading and writing tickets; makes the folder where there is none yet.

        Raises:
            InvalidRequest: If the folder is none that everybody may safely use, or the lock stays taken.
        """
        self._make_folder()
        lock = self._take_lock()
        try:
            yield
        finally:
            os.close(lock)

    def _take_lock(self) -> int:
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while time.monotonic() < deadline:
            lock = self._open_lock()
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_still(lock, self.folder / "lock"):  # somebody may have cleaned up between the two
                    return lock
            os.close(lock)
            time.sleep(_LOCK_POLL_S)
        raise InvalidRequest(
            f"{self.folder / 'lock'} has been held for {_LOCK_PATIENCE_S:.0f} s: a process that is stopped has it.",
            hint=f"fuser -v {self.folder / 'lock'}",
        )

    def read(self) -> list[Ticket]:
        """Return the tickets of those that live, first come first; remove one's own of the dead.

        Call it under :meth:`locked`.
        """
        tickets = []
        for path in self._paths():
            ticket = self._read_or_remove(path)
            if ticket is not None:
                tickets.append(ticket)
        return sorted(tickets, key=lambda ticket: (ticket.number, ticket.key))

    def look(self) -> list[Ticket]:
        """Return the living tickets as somebody sees them who only looks: no folder is made, none is no error."""
        if not (self.folder / "lock").exists():
            return []
        with self.locked():
            return self.read()

    def add(self, ticket: Ticket) -> tuple[int, Ticket]:
        """Put in a ticket behind all others, and lock it; call it under :meth:`locked`.

        Returns:
            The open file, whose end is the ticket's end; and the ticket with its number.
        """
        last = max((other.number for other in self.read()), default=0)
        ticket = replace(ticket, number=last + 1, key=os.urandom(4).hex())
        opened = _create(self._path(ticket))
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.write(opened, ticket)
        return opened, ticket

    @staticmethod
    def write(opened: int, ticket: Ticket) -> None:
        """Write a ticket anew; call it under :meth:`locked`, and never once a rank has the file.

        A process that is killed in the middle of it leaves half a ticket, and nobody that keeps it alive.
        """
        record = {name: value for name, value in asdict(ticket).items() if name not in {"uid", "looked"}}
        data = json.dumps(record).encode()
        os.ftruncate(opened, 0)
        if os.pwrite(opened, data, 0) != len(data):
            raise OSError("the ticket could not be written whole: the disk is full")

    def note_idle(self, ticket: Ticket, idle_since: Mapping[str, float]) -> None:
        """Tell since when which GPUs have been idle, in seconds since the epoch."""
        path = self._idle_path(ticket)
        temporary = path.with_suffix(f".{os.getpid()}")
        descriptor = _create(temporary)
        try:
            os.write(descriptor, json.dumps(dict(idle_since)).encode())
        finally:
            os.close(descriptor)
        temporary.replace(path)

    def idle_since(self, ticket: Ticket) -> dict[str, float]:
        """Return since when which of a ticket's GPUs have been idle, in seconds since the epoch."""
        with contextlib.suppress(OSError, *NOT_OURS):
            descriptor = os.open(self._idle_path(ticket), _READ)
            try:
                record = read_json_object(descriptor, uid=ticket.uid)
            finally:
                os.close(descriptor)
            return {uuid: as_moment(since) for uuid, since in record.items() if uuid in ticket.held}
        return {}

    def _path(self, ticket: Ticket) -> Path:
        return self.folder / f"ticket-{ticket.name}.json"

    def _idle_path(self, ticket: Ticket) -> Path:
        return self.folder / f"idle-{ticket.name}.json"

    def _paths(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if TICKET.fullmatch(path.name)]

    def _read_or_remove(self, path: Path) -> Ticket | None:
        try:
            descriptor = os.open(path, _READ)
        except OSError:  # gone meanwhile, a link, or nobody may read it
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            if not _is_locked(descriptor):
                self._remove(path)
                return None
            return read_ticket(descriptor, path)
        finally:
            os.close(descriptor)

    @staticmethod
    def _remove(path: Path) -> None:
        """Remove what a dead one has left; in a folder with the sticky bit only its owner can."""
        for leftover in (path, path.with_name(path.name.replace("ticket-", "idle-", 1))):
            with contextlib.suppress(OSError):
                leftover.unlink()

    def _make_folder(self) -> None:
        if not self.folder.exists():
            before = os.umask(0)  # in one step: no other process may find a folder that is not yet everybody's
            try:
                self.folder.mkdir(mode=_EVERYBODY, exist_ok=True)
            except OSError as error:
                raise InvalidRequest(
                    f"The folder of this machine's GPU leases, {self.folder}, cannot be made: {error.strerror}.",
                    hint=f"{FOLDER_VARIABLE}=/a/folder/for/all/users",
                ) from error
            finally:
                os.umask(before)
        status = self.folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_mode & _EVERYBODY != _EVERYBODY:
            raise InvalidRequest(
                f"{self.folder}, for this machine's GPU leases, is no folder of mode 1777: not all users could use "
                f"it, or one could remove another's lease (it is {stat.filemode(status.st_mode)}, of user id "
                f"{status.st_uid}).",
                hint=f"sudo chmod 1777 {self.folder}",
            )

    def _open_lock(self) -> int:
        path = self.folder / "lock"
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, _READ)
        try:
            return _create(path)
        except FileExistsError:
            return os.open(path, _READ)


def _create(path: Path) -> int:
    """Make a file that its owner writes and everybody reads, in one step; the umask may say otherwise."""
    before = os.umask(0)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    finally:
        os.umask(before)


def _is_still(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _is_locked(descriptor: int) -> bool:
    """Say whether somebody has the file locked, without keeping a lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
