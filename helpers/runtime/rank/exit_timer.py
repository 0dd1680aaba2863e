"""Have the system end this process in time, by a timer that needs no Python, and see before where it hangs.

While the interpreter ends, no thread of Python's runs any more, nor any handler of signals.
Source: timer_create(2), sigevent(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import time

_SIGEV_THREAD = 2  # <bits/sigevent-consts.h>


class _Event(ctypes.Structure):
    """A ``struct sigevent`` that calls ``function(value)`` in a thread."""

    _fields_ = (
        ("value", ctypes.c_int64),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("padding", ctypes.c_char * 32),
    )


def exit_in_time(exit_code: int, *, within_s: int) -> None:
    """Print where this process hangs after ``within_s`` seconds, and end it a second later, with ``exit_code``."""
    with contextlib.suppress(OSError, ValueError):  # stderr is closed
        faulthandler.dump_traceback_later(within_s, file=2)
    with contextlib.suppress(OSError, AttributeError):  # elsewhere than on Linux it is as patient as Python
        system, timer = ctypes.CDLL("librt.so.1"), ctypes.c_void_p()
        leave = ctypes.cast(getattr(system, "_exit"), ctypes.c_void_p)  # noqa: B009 -- private to C, not to a module
        event = _Event(value=exit_code, notify=_SIGEV_THREAD, function=leave)
        system.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer))
        seconds = (ctypes.c_long * 4)(0, 0, within_s + 1, 0)  # no interval
        system.timer_settime(timer, 0, ctypes.byref(seconds), None)
