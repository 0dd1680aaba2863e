"""Judge a value that was typed by the annotation of the parameter that it is for.

Only what an annotation settles is judged: ``int``, ``float``, ``bool``, ``Path``, ``Literal`` and an ``Enum``; anything
else, such as a union, takes any value, and each takes ``None``.
"""

from __future__ import annotations

import enum
import inspect
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBERS = {"int": int, "float": float, "bool": bool, "str": str, "Path": Path}
_EXAMPLES = {int: "3", float: "0.1", bool: "true"}


def kinds_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotation of each parameter; one that cannot be evaluated here counts by its name, if known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    try:
        hints = typing.get_type_hints(inspect.unwrap(function))
    except Exception:  # noqa: BLE001 -- it evaluates the user's annotations
        hints = {}
    named = {parameter.name: parameter.annotation for parameter in parameters}
    return {name: hints.get(name, _NUMBERS.get(str(kind), kind)) for name, kind in named.items()}


def fit_kind(name: str, text: str, value: Any, kind: Any) -> Any:
    """Return a value as a parameter of this kind takes it.

    Args:
        name: The parameter's.
        text: What was typed.
        value: The same, as it reads without an annotation.
        kind: The annotation.

    Raises:
        InvalidRequest: If it is of another kind.
    """
    if value is None:
        return None
    if kind is Path:
        return Path(text)
    if typing.get_origin(kind) is Literal:
        return _choose(name, text, value, {choice: choice for choice in typing.get_args(kind)})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members: list[enum.Enum] = list(kind)
        by_value = {member.value: member for member in members if _is_plain(member.value)}
        return _choose(name, text, value, {member.name: member for member in members} | by_value)
    if kind is float and isinstance(value, str):
        value = _infinite(value)
    if kind in _EXAMPLES and not _is_of(value, kind):
        article = "an" if kind is int else "a"
        raise InvalidRequest(
            f"{name} is {article} {kind.__name__}; got {text!r}.", hint=f"for example: {name}={_EXAMPLES[kind]}"
        )
    return value


def _is_of(value: Any, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool) or (isinstance(value, int) and value in {0, 1})
    numbers = (int, float) if kind is float else int
    return isinstance(value, numbers) and not isinstance(value, bool)


def _infinite(text: str) -> Any:
    """Read what is a number to ``float`` alone: ``inf``, ``nan``."""
    try:
        return float(text)
    except ValueError:
        return text


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _choose(name: str, text: str, value: Any, choices: dict[Any, Any]) -> Any:
    for typed in (text, value):
        if _is_plain(typed) and typed in choices:
            return choices[typed]
    listed = ", ".join(dict.fromkeys(str(choice) for choice in choices))
    raise InvalidRequest(f"{name} is one of {listed}; got {text!r}.", hint=f"for example: {name}={next(iter(choices))}")
