"""Lease GPUs of this machine among all its users' jobs: two never get one, and who waits longest is served first.

A job takes all that it wants at once or nothing, so none holds some while it waits for more: there is no deadlock. The
free ones are handed out in the order of the tickets, and what a job at the front still lacks is kept for it: a job of
four GPUs is not starved by a stream of jobs of one. The price is that some stay free while it waits. Nothing is kept
for a job that only a program without a ticket keeps from starting, nor for one that has not looked for two minutes.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.gpus.nvml import list_gpus
from helpers.runtime.gpus.ticket import Ticket
from helpers.runtime.switch import read_switch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from helpers.runtime.gpus.nvml import Gpu
    from helpers.runtime.gpus.queue import GpuQueue

LEASE_VARIABLE = "HELPERS_LEASE"
"""The tickets that a process lives under, the outermost first: a job that it submits here shares what they hold."""

TAKE_USED_VARIABLE = "HELPERS_ALLOW_USED_GPUS"
_POLL_S = 0.5
_PASSED_OVER_S = 120.0  # a waiting process that is stopped keeps nobody else from computing
_NOTED_EVERY_S = 60.0
_TOLD_EVERY_S = 60.0  # the memory of a program without a ticket changes all the time


@dataclass
class Lease:
    """GPUs that are this process's and its ranks', until the last of them is gone.

    Args:
        queue: The folder of the ticket.
        ticket: With what is held.
        descriptor: The open ticket: what a rank must inherit.
    """

    queue: GpuQueue
    ticket: Ticket
    descriptor: int
    _next_note: float = 0.0

    @property
    def variables(self) -> dict[str, str]:
        """What the ranks have in their environment, besides the GPUs that they see."""
        return {LEASE_VARIABLE: " ".join([*self.ticket.within, self.ticket.name])}

    def note_use(self) -> None:
        """Now and then, write down which GPUs are idle: not busy, and with no process."""
        if time.monotonic() < self._next_note:
            return
        self._next_note = time.monotonic() + _NOTED_EVERY_S
        os.utime(self.descriptor)  # what removes old files from such folders goes by their age
        known, now = self.queue.idle_since(self.ticket), time.time()
        with contextlib.suppress(InvalidRequest, OSError):  # what is only shown must not end a job
            held = [gpu for gpu in list_gpus() if gpu.uuid in self.ticket.held]
            idle = [gpu.uuid for gpu in held if not (gpu.busy_percent or gpu.processes)]
            self.queue.note_idle(self.ticket, {uuid: known.get(uuid, now) for uuid in idle})

    def give_back(self) -> None:
        """Let go; what a process that outlives its rank still holds stays leased until that is gone, too."""
        os.close(self.descriptor)
        _sweep(self.queue)


def wait_for_gpus(
    queue: GpuQueue,
    wanted: Ticket,
    *,
    is_stopped: Callable[[], bool],
    tell: Callable[[str], None],
    ask_driver: Callable[[], Sequence[Gpu]] = list_gpus,
    poll_s: float = _POLL_S,
) -> Lease | None:
    """Stand in the queue until it is this job's turn.

    Args:
        queue: Of this machine.
        wanted: Whose job it is and what it wants; its number is given here.
        is_stopped: Says whether the job is to end without having begun.
        tell: Is called with the reason why it waits, and now and then with a new one.
        ask_driver: Returns the GPUs with what uses them.
        poll_s: Seconds between two looks.

    Returns:
        The lease; None if the job was stopped before its turn came.

    Raises:
        InvalidRequest: If the queue cannot be used, or the driver does not work.
    """
    with queue.locked():
        descriptor, ticket = queue.add(wanted)
    told, next_time = "", 0.0
    try:
        while not is_stopped():
            ticket = _look(queue, ticket, descriptor, ask_driver())
            if ticket.held:
                lease, descriptor = Lease(queue=queue, ticket=ticket, descriptor=descriptor), -1
                return lease
            if ticket.reason != told and time.monotonic() >= next_time:
                told, next_time = ticket.reason, time.monotonic() + _TOLD_EVERY_S
                tell(told)
            time.sleep(poll_s)
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
            _sweep(queue)


def _sweep(queue: GpuQueue) -> None:
    """Remove what one's own dead have left; where that cannot be now, somebody else does it."""
    with contextlib.suppress(InvalidRequest, OSError), queue.locked():
        queue.read()


def _look(queue: GpuQueue, ticket: Ticket, descriptor: int, gpus: Sequence[Gpu]) -> Ticket:
    """Take the GPUs if it is this ticket's turn; else say why it is not."""
    with queue.locked():
        tickets = queue.read()
        used = used_without_lease(gpus, tickets)
        given = give(ticket, tickets, used, now=time.time())
        if given:
            ticket = replace(ticket, held=given, since=time.time(), reason="")
            queue.write(descriptor, ticket)
            return ticket
        reason = explain(ticket, tickets, gpus)
        if reason != ticket.reason:
            ticket = replace(ticket, reason=reason)
            queue.write(descriptor, ticket)
        os.utime(descriptor)
    return ticket


def give(ticket: Ticket, tickets: Sequence[Ticket], used: Collection[str], *, now: float) -> list[str]:
    """Return the GPUs that a waiting ticket may take now; none as long as it is not its turn.

    Args:
        ticket: That waits.
        tickets: All that live, first come first, this one included.
        used: UUIDs of the GPUs that a program without a ticket uses.
        now: In seconds since the epoch.
    """
    kept: set[str] = set()
    for other in (one for one in tickets if not one.held):
        in_the_way = set() if other.takes_used else set(used)
        allowed = [uuid for uuid in other.among if uuid not in in_the_way]
        free = [uuid for uuid in allowed if uuid not in kept | _held_by_others(other, tickets)]
        if other.name == ticket.name:
            return free[: other.wants] if len(free) >= other.wants else []
        if len(allowed) >= other.wants and now - other.looked < _PASSED_OVER_S:
            kept.update(free[: other.wants])
    return []


def _held_by_others(ticket: Ticket, tickets: Sequence[Ticket]) -> set[str]:
    """Return what is held, but for what the jobs hold that this one was submitted in."""
    return {uuid for other in tickets if other.name not in ticket.within for uuid in other.held}


def used_without_lease(gpus: Sequence[Gpu], tickets: Sequence[Ticket]) -> set[str]:
    """Return the UUIDs of the GPUs that a program uses which has no ticket."""
    leased = {uuid for ticket in tickets for uuid in ticket.held}
    return {gpu.uuid for gpu in gpus if gpu.is_used and gpu.uuid not in leased}


def explain(ticket: Ticket, tickets: Sequence[Ticket], gpus: Sequence[Gpu]) -> str:
    """Say why a ticket waits: who holds what, what else uses a GPU, and how many are before it."""
    known = {gpu.uuid: gpu for gpu in gpus}
    parts = []
    for uuid in ticket.among:
        name = f"GPU {known[uuid].index if uuid in known else uuid}"
        holders = [other for other in tickets if uuid in other.held and other.name not in ticket.within]
        if holders:
            parts.append(f"{name} is held by {describe(holders[-1])}")
        elif not ticket.takes_used and uuid in used_without_lease(gpus, tickets):
            parts.append(f"{name} is used without a lease by {describe_use(known[uuid])}")
    before = sum(not other.held and other.number < ticket.number for other in tickets)
    if before:
        parts.append(f"{before} {'job is' if before == 1 else 'jobs are'} before it")
    return f"waits for {ticket.wants} {'GPU' if ticket.wants == 1 else 'GPUs'} of this machine: {'; '.join(parts)}"


def describe(ticket: Ticket) -> str:
    """Return whose a ticket is, and since when."""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(ticket.since))
    return f"job {ticket.job} of {user_name(ticket.uid)} since {since}"


def describe_use(gpu: Gpu) -> str:
    """Return who uses a GPU: each process with its user and its memory."""
    words = [
        f"pid {one.pid} of {_owner(one.pid)}" + ("" if one.memory_mb is None else f" with {one.memory_mb} MiB")
        for one in gpu.processes
    ]
    return ", ".join(words) or f"a process that is not shown, with {gpu.used_mb} MiB"


def user_name(uid: int) -> str:
    """Return a user's name; the number where it has none here."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _owner(pid: int) -> str:
    import psutil

    try:
        return psutil.Process(pid).username()
    except psutil.Error:
        return "another container, or gone"


def new_ticket(environment: Mapping[str, str], gpus: Sequence[Gpu], *, job: str, folder: str, wants: int) -> Ticket:
    """Return a ticket to stand in the queue with.

    Args:
        environment: Of the run.
        gpus: That it may use.
        job: Its id.
        folder: Its run folder.
        wants: How many GPUs.
    """
    return Ticket(
        number=0,
        key="",
        job=job,
        folder=folder,
        pid=os.getpid(),
        wants=wants,
        among=[gpu.uuid for gpu in gpus if wants == 1 or not gpu.is_slice],
        within=environment.get(LEASE_VARIABLE, "").split(),
        takes_used=read_switch(environment, TAKE_USED_VARIABLE) is True,
        since=time.time(),
        uid=os.getuid(),
    )
