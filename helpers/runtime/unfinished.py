"""Let what still runs in the background come to its end before the process does.

A rank's end is bounded, so that a forgotten thread does not keep the allocation; what must not be cut short is
named here, and waited for before the rank reports. Outside a job Python's own exit waits for it.
"""

from __future__ import annotations

import atexit
import functools
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_finishers: dict[object, Callable[[], object]] = {}


def add(key: object, finish: Callable[[], object]) -> None:
    """Have ``finish`` called before the process ends; what it raises makes the job fail."""
    _finish_at_exit()
    _finishers[key] = finish


@functools.cache
def _finish_at_exit() -> None:
    """Register it once a process: what is unfinished comes and goes with every save."""
    atexit.register(finish_all)


def discard(key: object) -> None:
    """Forget what has come to its end."""
    _finishers.pop(key, None)


def finish_all() -> None:
    """Wait for all that was named, then raise the first error of theirs."""
    errors: list[Exception] = []
    for key, finish in list(_finishers.items()):
        try:
            finish()
        except Exception as error:  # noqa: BLE001 -- the others are to be finished too
            errors.append(error)
        discard(key)
    if errors:
        raise errors[0]


def finish_some(*, within_s: float) -> None:
    """Wait a limited time, for a process that fails anyway; what it has not finished then, nobody waits for."""
    if _finishers:
        thread = threading.Thread(target=_finish_quietly, name="helpers-finish", daemon=True)
        thread.start()
        thread.join(within_s)
        _finishers.clear()


def _finish_quietly() -> None:
    for finish in list(_finishers.values()):
        try:
            finish()
        except Exception:  # noqa: BLE001, S112 -- the process has a failure of its own to tell
            continue
