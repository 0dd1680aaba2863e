"""Tell a call's own arguments from this library's keywords, and check both before anything is queued."""

from __future__ import annotations

import difflib
import functools
import inspect
import reprlib
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST_REPR = 80

RESERVED = (
    "gpus", "nodes", "processes", "cpus", "mem", "time", "total_time", "partition", "account", "qos", "name",
    "after", "profile", "cluster", "container", "setup", "launcher", "requeue", "slurm", "dry_run",
)  # fmt: skip
"""The keywords of ``submit`` that are not the function's; frozen."""


def split_keywords(function: Callable[..., Any], keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide the keywords of ``submit`` into this library's and the function's.

    Raises:
        InvalidRequest: If the function has a parameter of a reserved name: it could never be given.
    """
    clash = sorted(set(_parameters(function)) & set(RESERVED))
    if clash:
        name = function_name(function)
        raise InvalidRequest(
            f"{name} has a parameter {clash[0]!r}, a keyword that submit() keeps for itself.",
            hint=f"Executor({clash[0]}=…).submit({name}, {clash[0]}=…) gives every argument to the function, "
            f"and so does functools.partial({name}, {clash[0]}=…)",
        )
    ours = {name: value for name, value in keywords.items() if name in RESERVED}
    theirs = {name: value for name, value in keywords.items() if name not in RESERVED}
    return ours, theirs


def check_callable(function: Any) -> None:
    """Refuse what cannot be called.

    Raises:
        InvalidRequest: For a result in place of a function: ``submit(train())``.
    """
    if not callable(function):
        raise InvalidRequest(
            f"submit takes a function and its arguments; got {function!r}.", hint="submit(train, lr=1e-3)"
        )


def check_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Bind the arguments to the function's signature, as Python would when the job starts.

    Raises:
        InvalidRequest: If they do not fit, with the nearest name that would.
    """
    try:
        signature = _signature_of(function)
    except (TypeError, ValueError):
        return  # a built-in without a signature: Python itself will check
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = function_name(function)
        raise InvalidRequest(f"{name}{signature}: {error}.", hint=_suggestion(function, kwargs)) from error


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature, worked out once for a function that is submitted again and again."""
    try:
        return _known_signature(function)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return inspect.signature(function)


@functools.lru_cache(maxsize=64)
def _known_signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _suggestion(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> str:
    known = _parameters(function)
    for keyword in kwargs:
        if keyword in known:
            continue
        near = difflib.get_close_matches(keyword, [*known, *RESERVED], n=1, cutoff=0.6)
        if near:
            return f"did you mean {near[0]}?"
    return f"its arguments are: {', '.join(known) or 'none'}"


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = _signature_of(function).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return [parameter.name for parameter in parameters if parameter.kind in named and parameter.name not in bound]


def function_name(function: Callable[..., Any]) -> str:
    """Return a short name for people and folders."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    return "lambda" if name == "<lambda>" else name


def qualified_name(function: Callable[..., Any]) -> str:
    """Return ``module.function`` for the records."""
    while isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}.{getattr(function, '__qualname__', None) or type(function).__qualname__}"


def describe_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """Return the arguments for people, shortened: ``["0.1", "epochs=10"]``."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = _LONGEST_REPR
    return [short.repr(arg) for arg in args] + [f"{name}={short.repr(value)}" for name, value in kwargs.items()]
