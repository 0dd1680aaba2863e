"""Wait for an event itself, not for a time in which it should have come: a busy machine needs more of it."""

import time
from collections.abc import Callable
from typing import TypeVar

_POLL_S = 0.05
Value = TypeVar("Value")


def wait_for(what: Callable[[], Value], doing: str | Callable[[], object] = "", *, within_s: float = 120) -> Value:
    """Return what ``what`` gives, as soon as that is true.

    Args:
        what: Asked again and again.
        doing: What is waited for, in words; or a function that tells, if it did not come, what there is instead.
        within_s: In seconds; when a hung machine is given up, not how soon the event has to come.

    Raises:
        AssertionError: If it does not come.
    """
    deadline = time.monotonic() + within_s
    while not (value := what()):
        if time.monotonic() > deadline:
            said = doing() if callable(doing) else doing
            raise AssertionError(f"this did not happen within {within_s:g} s: {said or 'what the test waits for'}")
        time.sleep(_POLL_S)
    return value
