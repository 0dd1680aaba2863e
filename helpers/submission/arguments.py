"""Tell a call's own arguments from this library's keywords, and check both before anything is queued."""

from __future__ import annotations

import difflib
import functools
import inspect
import reprlib
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from helpers.submission.sweep import Arguments


class _Short(reprlib.Repr):
    """``repr``, cut: also of bytes, which the standard one writes out in full before it cuts them."""

    def repr_bytes(self, value: bytes | bytearray, _level: int) -> str:
        """Return the repr of a few bytes, and how many there are."""
        return repr(value) if len(value) <= self.maxother else f"{bytes(value[:20])!r}… ({len(value)} bytes)"

    repr_bytearray = repr_bytes


_NEAR_OURS = 0.75  # one letter off; what is farther off is an argument of the function that is remembered wrongly
_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 80

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


def check_keywords(caller: str, keywords: Iterable[str], *, note: str = "") -> None:
    """Refuse a keyword that is not this library's, where none can be the function's.

    Args:
        caller: Who takes them, for people.
        keywords: Their names.
        note: Where the function's arguments stand.

    Raises:
        InvalidRequest: With the nearest one that there is.
    """
    for name in sorted(set(keywords) - set(RESERVED)):
        near = difflib.get_close_matches(name, RESERVED, n=1)
        hint = f"did you mean {near[0]}?" if near else f"its keywords are: {', '.join(RESERVED)}"
        raise InvalidRequest(f"{caller} has no keyword {name!r}{note}.", hint=hint)


def check_callable(function: Any) -> None:
    """Refuse what cannot be called, and what runs nothing when it is.

    Raises:
        InvalidRequest: For a result in place of a function: ``submit(train())``; for a coroutine function and a
            generator function, whose call returns at once an object that no job can send back.
    """
    if not callable(function):
        raise InvalidRequest(
            f"submit takes a function and its arguments; got {function!r}.", hint="submit(train, lr=1e-3)"
        )
    name = function_name(function)
    if _is(inspect.iscoroutinefunction, function):
        raise InvalidRequest(
            f"{name} is a coroutine function: a call of it runs nothing before it is awaited.",
            hint=f"submit a function that runs it: def main(): return asyncio.run({name}(…))",
        )
    if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
        raise InvalidRequest(
            f"{name} is a generator function: a call of it runs nothing before somebody takes its values.",
            hint=f"submit a function that takes them: def main(): return list({name}(…))",
        )


def _is(kind: Callable[[Any], bool], function: Any) -> bool:
    """Say whether a function is of this kind, or an object whose call is; :mod:`inspect` sees through partials."""
    return kind(function) or (not inspect.isclass(function) and kind(getattr(function, "__call__", None)))  # noqa: B004 -- it is looked at


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
        raise InvalidRequest(f"{name}{signature}: {error}.", hint=_suggestion(function, kwargs)) from None


def check_calls(function: Callable[..., Any], calls: Iterable[Arguments]) -> None:
    """Check each call as :func:`check_call` does; whether arguments fit, their number and their names alone decide."""
    for args, kwargs in {(len(args), *kwargs): (args, kwargs) for args, kwargs in calls}.values():
        check_call(function, args, kwargs)


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
        near = difflib.get_close_matches(keyword, known, n=1) or difflib.get_close_matches(
            keyword, RESERVED, n=1, cutoff=_NEAR_OURS
        )
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
    """Return the arguments for people, shortened: ``["0.1", "epochs=10"]``; a job stands for its result."""
    from helpers.submission.jobs.job import Job

    def described(value: Any) -> str:
        return f"<result of {value.id}>" if isinstance(value, Job) else _SHORT.repr(value)

    return [described(arg) for arg in args] + [f"{name}={described(value)}" for name, value in kwargs.items()]
