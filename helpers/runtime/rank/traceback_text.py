"""Write the traceback of a user's function: their frames, and none of ours around them."""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path

from helpers.errors import HelpersError

_PACKAGE = str(Path(__file__).parents[2])


def traceback_text(error: BaseException) -> str:
    """Return the traceback as Python prints it, without the frames of this library that say nothing to its user.

    Those above the function are its call; those at the end of an error of ours, such as ``GpuNotSeen``, are how
    we came to refuse, and the last frame that is left is the call that was refused. The end of any other error
    stays: there it may be this library that is broken.
    """
    found = traceback.TracebackException(type(error), error, error.__traceback__)
    while len(found.stack) > 1 and _is_runner(found.stack[0].filename):
        del found.stack[0]
    while isinstance(error, HelpersError) and len(found.stack) > 1 and _is_inside(found.stack[-1].filename):
        del found.stack[-1]
    return "".join(found.format())


def last_line(error: BaseException) -> str:
    """Return ``Class: message``; without the notes that Python prints below it, and without our hint."""
    if isinstance(error, HelpersError):
        return f"{type(error).__name__}: {error.message}"
    summary = traceback.TracebackException(type(error), error, None)
    summary.__notes__ = None
    return list(summary.format_exception_only())[-1].strip()


def _is_runner(filename: str) -> bool:
    """Say whether it is of what calls the function, in the job or in this process."""
    return _is_ours(filename) and Path(filename).name in {"rank.py", "call.py", "inline.py"}


def _is_inside(filename: str) -> bool:
    """Say whether it is of this library, or of what stands between it and its caller in a ``with``."""
    return _is_ours(filename) or filename == contextlib.__file__


def _is_ours(filename: str) -> bool:
    return filename.startswith(f"{_PACKAGE}/")
