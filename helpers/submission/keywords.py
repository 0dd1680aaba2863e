"""Check the keywords of a submission that ask for no resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.errors import InvalidRequest

_LONGEST_NAME = 100


def check_name(name: Any) -> str:
    """Return a name that can be that of a folder and of a job.

    Raises:
        InvalidRequest: For a path, a hidden name, control characters, or an overlong name.
    """
    text = str(name)
    bad = [character for character in text if character == "/" or not character.isprintable()]
    if bad or not text.strip() or text.startswith(".") or len(text) > _LONGEST_NAME:
        raise InvalidRequest(
            f"A run's name is one folder name of at most {_LONGEST_NAME} printable characters, without '/' and "
            f"not starting with '.'; got {text!r}.",
            hint='name="resnet50-lr3e-4"',
        )
    return text


def check_requeue(value: Any) -> str | bool:
    """Return ``"auto"``, True or False.

    Raises:
        InvalidRequest: For anything else.
    """
    if isinstance(value, bool):
        return value
    if value == "auto":
        return "auto"
    raise InvalidRequest(f"requeue is 'auto', True or False; got {value!r}.", hint='requeue="auto"')


def check_setup(lines: Any) -> Sequence[str]:
    """Return the shell lines that run before the ranks, whether one was given or a list of them.

    Raises:
        InvalidRequest: If they are no text.
    """
    if lines is None:
        return ()
    if isinstance(lines, str):
        return (lines,)
    if not isinstance(lines, Sequence) or not all(isinstance(line, str) for line in lines):
        raise InvalidRequest(f"setup is a list of shell lines; got {lines!r}.", hint='setup=["module load cuda"]')
    return tuple(lines)


def check_max_running(value: Any) -> int | None:
    """Return how many elements of an array may run at a time; None for any number.

    Raises:
        InvalidRequest: If it is no whole number from 1 up.
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise InvalidRequest(f"max_running is a whole number from 1 up; got {value!r}.", hint="max_running=8")
