"""End the process of a rank: as Python ends, and in bounded time.

Handlers of ``atexit`` run, multiprocessing's and C libraries' too, and files that are still open get their last
bytes. Nothing of that may keep the allocation, so each part has its time: threads that were left behind, then the
handlers, then the interpreter. What takes longer is cut off, and named in the log. How the function ended has been
reported before; the exit code is the same whatever happens here.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from helpers.runtime import stop
from helpers.runtime.mpi import rank as mpi

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

THREADS_S = 5
"""How long threads that were left behind may still work."""

HANDLERS_S = 30
"""How long handlers of ``atexit`` may take together."""

HURRIED_S = 10
"""The same where others wait: the scheduler, or the ranks beside one that has failed."""

_INTERPRETER_S = 10


class _TookTooLong(BaseException):
    """Leave what takes too long; Python says so, and goes on to end."""


def keep_children_until_the_end() -> None:
    """Have programs that the function starts ended after all handlers of ``atexit`` that are registered later.

    Some serve those handlers.
    """
    atexit.register(_end_last)


def end_as_python_does(exit_code: int) -> NoReturn:
    """End this process from its main thread: threads, workers, handlers, children, and then the interpreter.

    Threads and the interpreter are not waited for where the scheduler has asked to stop, for a requeue needs its
    grace; nor where MPI would wait, at this rank's failure, for ranks that wait for this one.

    Args:
        exit_code: What the process ends with.
    """
    from helpers.runtime.rank.exit_timer import exit_in_time  # as below: a rank starts without what only its end needs
    from helpers.runtime.rank.leftovers import end_workers

    handlers_s = HURRIED_S if exit_code or stop.stop_requested() else HANDLERS_S
    exit_in_time(exit_code, within_s=THREADS_S + handlers_s + _INTERPRETER_S)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's raises for each worker that is killed here
    end_workers()
    if stop.stop_requested() or (exit_code and mpi.has_begun()):
        _allow_handlers(handlers_s)
        atexit._run_exitfuncs()  # noqa: SLF001 -- what Python calls at its end
        _flush_files()
        os._exit(exit_code)
    _allow_threads(handlers_s)
    sys.exit(exit_code)


def end_now(exit_code: int) -> NoReturn:
    """End this process from whatever thread, with its children, and wait for nothing."""
    from helpers.runtime.rank.leftovers import end_children

    end_children()
    flush_output()
    os._exit(exit_code)


def end_forked_child(owner: int, error: BaseException | None = None) -> None:
    """End a process that the function has forked and that has come out of it: the rank's end is not its to report.

    Args:
        owner: The process that began the rank; in that one nothing happens.
        error: What the child has come out with.
    """
    if os.getpid() == owner:
        return
    if error is not None and not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
    flush_output()
    os._exit(0 if error is None else exit_code_of(error))


def exit_code_of(error: BaseException) -> int:
    """Return the exit code that the system sees of a process that an exception ends: 0 to 255."""
    if not isinstance(error, SystemExit):
        return 1
    if isinstance(error.code, int):
        return error.code & 0xFF or bool(error.code)
    return 0 if error.code is None else 1


def _allow_threads(handlers_s: int) -> None:
    """Let Python wait for threads as it does, for a while; the first handler of ``atexit`` ends that time."""
    complain = sys.unraisablehook

    def stop_waiting(_number: int, _frame: FrameType | None) -> None:
        others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
        alive = ", ".join(thread.name for thread in others if not thread.daemon)
        print(f"Still alive when the function ended, and ended with it: {alive}", file=sys.stderr, flush=True)
        sys.unraisablehook = lambda _: None
        raise _TookTooLong

    def begin_handlers() -> None:
        sys.unraisablehook = complain
        _allow_handlers(handlers_s)

    atexit.register(begin_handlers)
    _set_alarm(THREADS_S, stop_waiting)


def _allow_handlers(seconds: int) -> None:
    """Let the handlers run for a while; the one that runs at its end is cut off, and each that is slow after it."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        print(f"[helpers] atexit handlers took more than {seconds} s; cut off:", file=sys.stderr, flush=True)
        signal.alarm(1)
        raise _TookTooLong

    _set_alarm(seconds, leave)


def _set_alarm(seconds: int, handler: Callable[[int, FrameType | None], None]) -> None:
    signal.signal(signal.SIGALRM, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(seconds)


def _end_last() -> None:
    """Do what is left when all handlers have run; from here on Python has no handler for the alarm."""
    from helpers.runtime.rank.leftovers import end_children

    signal.alarm(0)
    end_children()
    flush_output()


def flush_output() -> None:
    """Flush what was printed; what cannot be (it is closed, the disk is full) is not worth another exit code."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:  # noqa: BLE001 -- it may be an object of the user's
            setattr(sys, name, None)


def _flush_files() -> None:
    """Flush the files that are open, as the interpreter does by letting go of them."""
    for one in gc.get_objects():
        kind = type(one)  # asked of nothing else: it may be an object of the user's
        if kind is io.TextIOWrapper or kind is io.BufferedWriter or kind is io.BufferedRandom:
            with contextlib.suppress(Exception):
                one.flush()
