"""Refuse a call that is too large to be sent as a pickle, and say which argument makes it so."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.submission.arguments import function_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from helpers.runtime.rank.call import Calls

MIB = 2**20

WARNED_MB = 64
"""A call that takes more on the disk is submitted, with a warning."""

REFUSED_MB = 512
"""A call that takes more is not submitted."""


def check_size(
    size: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    each: str = "",
) -> None:
    """Warn of a large call, refuse a huge one.

    Args:
        size: Bytes of its pickle.
        function: What is called.
        args: Its arguments.
        kwargs: Its keyword arguments.
        each: Of an array: how many elements there are, for people.

    Raises:
        InvalidRequest: With the size of each part that matters.
    """
    if size <= WARNED_MB * MIB:
        return
    parts = ", ".join(f"{name}: {part / MIB:.0f} MiB" for name, part in _parts(function, args, kwargs))
    what = f"The call takes {size / MIB:.0f} MiB as a pickle{each}: {parts}."
    hint = "pass the path of a file, and read it inside the function"
    if size > REFUSED_MB * MIB:
        raise InvalidRequest(f"{what} At most {REFUSED_MB} MiB are sent with a job.", hint=hint)
    print(f"helpers: {what} Every rank reads it at its start.\n  hint: {hint}", file=sys.stderr)


def check_array_size(
    calls: Calls,
    function: Callable[..., Any],
    elements: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]],
) -> None:
    """Judge an array by what it takes on the disk in all; the parts that are told are those of its largest element.

    Raises:
        InvalidRequest: As :func:`check_size` does.
    """
    sizes = [len(data) for data in calls.arguments]
    args, kwargs = elements[sizes.index(max(sizes))]
    those = f"the first {len(sizes)} of {len(elements)}" if len(sizes) < len(elements) else f"{len(sizes)}"
    each = f" for {those} elements, of the largest"
    check_size(len(calls.function) + sum(sizes), function, args, kwargs, each=each)


def _parts(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the larger parts with their sizes, the largest first."""
    from helpers.runtime.rank.call import Call, dump_call

    named: dict[str, Any] = {f"argument {number}": value for number, value in enumerate(args)}
    named |= {f"argument {key!r}": value for key, value in kwargs.items()}
    sizes = [(name, len(dump_call(Call(print, (value,), {})))) for name, value in named.items()]
    own = len(dump_call(Call(function, (), {})))
    sizes.append((f"the function {function_name(function)} with the variables that it uses", own))
    return sorted(((name, size) for name, size in sizes if size > MIB), key=lambda item: -item[1])
