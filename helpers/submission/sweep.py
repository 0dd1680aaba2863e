"""Write down the calls of a sweep: ``grid(lr=[1e-3, 3e-4], seed=range(3))``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from helpers.errors import InvalidRequest

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""The positional and the keyword arguments of one call."""


@dataclass(frozen=True, init=False)
class call:  # noqa: N801 -- it is used like a function: call(lr=0.1)
    """The arguments of one call: ``call(config, seed=3)``."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "kwargs", kwargs)


def grid(**values: Iterable[Any]) -> list[call]:
    """Return a call for each combination of the values; the last keyword changes fastest.

    Args:
        **values: For each keyword argument its values: a list, a range, any iterable but a text.

    Raises:
        InvalidRequest: If one is no collection: a text would be taken apart into letters.
    """
    for name, value in values.items():
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise InvalidRequest(
                f"grid takes a list of values for each name; got {name}={value!r}.", hint=f"{name}=[{value!r}]"
            )
    combinations = itertools.product(*(list(value) for value in values.values()))
    return [call(**dict(zip(values, combination, strict=True))) for combination in combinations]


def read_calls(items: Iterable[Any]) -> list[Arguments]:
    """Return the arguments of each item: of a :class:`call` its own; any other item is the one argument.

    Raises:
        InvalidRequest: If there is none, or they are no list: a text would be taken apart into letters, a dictionary
            into its keys.
    """
    if isinstance(items, call):
        raise InvalidRequest("An array takes a list of calls; got one call.", hint="[call(…)], or submit() for one job")
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise InvalidRequest(
            f"An array takes a list of items, one for each call; got {items!r:.80}.",
            hint=f"grid({next(iter(items), 'seed')}=[…])" if isinstance(items, Mapping) else f"[{items!r:.80}]",
        )
    calls = [(item.args, item.kwargs) if isinstance(item, call) else ((item,), {}) for item in items]
    if not calls:
        raise InvalidRequest("There is nothing to submit: the list of items is empty.", hint="grid(seed=range(3))")
    return calls
