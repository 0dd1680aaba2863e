"""Pickle the calls of a submission, and name what cannot be pickled."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.runtime.rank.call import Call, Calls, dump_call
from helpers.submission.arguments import function_name
from helpers.submission.source import sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from helpers.submission.sweep import Arguments


def pickle_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Return one call as a job reads it.

    Raises:
        InvalidRequest: Naming the argument that cannot be pickled, or the function.
    """
    try:
        return dump_call(Call(function, args, dict(kwargs)))
    except Exception as error:  # noqa: BLE001 -- pickling runs the user's code
        name = _culprit(function, args, kwargs)
        raise InvalidRequest(
            f"{name} cannot be pickled, so it cannot be sent to a job: {error}.",
            hint="pass what it is made from (a path, a configuration) and make it inside the function",
        ) from (error if _is_users_own(error) else None)


def pickle_calls(function: Callable[..., Any], calls: Sequence[Arguments]) -> Calls:
    """Return the calls of an array, the function once.

    Raises:
        InvalidRequest: As :func:`pickle_call` does.
    """
    try:
        return Calls.of(function, list(calls), at_most=sizes.REFUSED_MB * sizes.MIB)
    except Exception:
        for args, kwargs in calls:
            pickle_call(function, args, kwargs)  # raises, naming the argument
        raise


def _is_users_own(error: Exception) -> bool:
    """Say whether code of the caller's, such as a ``__getstate__``, has raised this: its line is worth showing."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in {"helpers", "cloudpickle", "pickle", "copyreg"}


def _culprit(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    named = {f"argument {number}": value for number, value in enumerate(args)}
    named |= {f"argument {key!r}": value for key, value in kwargs.items()}
    for name, value in named.items():
        try:
            dump_call(Call(print, (value,), {}))
        except Exception:  # noqa: BLE001 -- pickling runs the user's code
            return f"{name} ({type(value).__module__}.{type(value).__qualname__})"
    return f"the function {function_name(function)} (or a variable that it uses)"
