"""Record that the scheduler wants this process to stop, and do nothing else.

A signal handler in Python runs only between bytecodes of the main thread: blocked in a collective it runs
seconds late, and whatever it does may break what it interrupted. So Python's C-level handler writes the
signal's number into a pipe at once (``signal.set_wakeup_fd``), and a thread that reads the pipe sets a flag.
Whoever trains asks the flag at a step boundary.

The batch script starts Python with these signals held back (``env --block-signal``), so that one that comes while
Python starts ends nothing, and is seen as soon as somebody listens. Programs that the function starts are not
spared: a handler does not outlive ``exec``, and where Slurm signals the whole tree they end by the signal.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

WARNING_SIGNAL = signal.SIGUSR2  # asked for with --signal; SIGUSR1 is taken by NCCL, SIGHUP by shells
STOP_SIGNALS = (signal.SIGTERM, WARNING_SIGNAL)
OUT_OF_TIME = "out of time"
"""In the place of a signal's name: a Checkpointer has asked, whose last save takes longer than the warning."""
_NOTED_ONLY = (signal.SIGCONT,)  # Slurm sends it before SIGTERM, to wake suspended jobs


class LeaveForRequeue(BaseException):
    """Leave the function because the state is saved and the job is to be requeued.

    It is no ``Exception``, so that ``except Exception`` in a training loop does not swallow it.
    """


@dataclass(frozen=True)
class StopRequest:
    """The first signal that asked this process to stop.

    Args:
        signal_name: Such as ``"SIGTERM"``; or :data:`OUT_OF_TIME`.
        time: When it was seen, in seconds since the epoch.
    """

    signal_name: str
    time: float


_request: StopRequest | None = None
_requested = threading.Event()
_leaving = threading.Event()
_listening_pid: int | None = None


def stop_request() -> StopRequest | None:
    """Return the request, or None as long as nobody has asked this process to stop."""
    return _request


def stop_requested() -> bool:
    """Say whether the scheduler has asked this process to stop."""
    return _request is not None


def begin_to_leave() -> None:
    """Note that training has reached a boundary and only saves what it leaves with."""
    _leaving.set()


def is_leaving() -> bool:
    """Say whether training has reached the boundary at which it leaves."""
    return _leaving.is_set()


def wait_for_stop(timeout_s: float | None = None) -> bool:
    """Wait for a request, for ``timeout_s`` seconds at most where that is given; return whether there is one."""
    return _requested.wait(timeout_s)


def request_stop(signal_name: str) -> None:
    """Record a request; the first one counts."""
    global _request  # noqa: PLW0603 -- one process has one request
    if _request is None:
        _request = StopRequest(signal_name, time.time())
        _requested.set()


def listen_for_stop() -> None:
    """Start to record the scheduler's signals; called once, in the main thread of the main process.

    Children that are forked later do not take part: SIGTERM ends them as usual, and the warning signal is
    ignored by them.
    """
    global _listening_pid  # noqa: PLW0603 -- one process listens once
    if _listening_pid == os.getpid():
        return
    _listening_pid = os.getpid()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in (*STOP_SIGNALS, *_NOTED_ONLY):
        signal.signal(number, _record_late)
        signal.siginterrupt(number, False)  # a system call that was interrupted goes on
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_record, args=(reader,), name="helpers-stop", daemon=True).start()
    os.register_at_fork(after_in_child=_forget_in_child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # what came while Python was starting comes now


def hold_back_stops(*more: int) -> None:
    """Keep the scheduler's signals waiting until ``listen_for_stop``; called in a child, before its program starts.

    Until Python listens, which takes a while on a slow disk, the warning signal would end it. On a cluster the
    batch script has ``env --block-signal`` do the same.

    Args:
        *more: Other signals to keep waiting.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, *more))


def _record_late(number: int, _frame: FrameType | None) -> None:
    """Set the flag where the pipe did not: asyncio, for one, takes the wake-up pipe away."""
    if number in STOP_SIGNALS:
        request_stop(signal.Signals(number).name)


def _record(reader: int) -> None:
    while numbers := os.read(reader, 64):
        for number in numbers:
            if number in STOP_SIGNALS:
                request_stop(signal.Signals(number).name)


def _forget_in_child() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(WARNING_SIGNAL, signal.SIG_IGN)
    signal.signal(signal.SIGCONT, signal.SIG_DFL)
