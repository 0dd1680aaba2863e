"""Load a call in a clean interpreter before it is queued, so that what fails there fails in seconds.

The interpreter is the job's: the same program, search path, folder, snapshot and environment, and nothing of
this process. It is asked once for each function, kind of arguments and state of the code in a process; where
the code is known by its snapshot, an answer holds for later processes too, as long as nothing is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.config import find_project
from helpers.errors import InvalidRequest
from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.rank.call import Call, dump_call
from helpers.runtime.switch import read_switch
from helpers.submission.arguments import function_name
from helpers.submission.source.loading_advice import advise
from helpers.submission.source.project_files import stamp_of
from helpers.submission.source.secrets import read_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from helpers.runtime.rank.call import Calls
    from helpers.runtime.run.description import Description

TIME_LIMIT_S = 60.0
"""An interpreter that takes longer is ended, and the job submitted unchecked, which is said."""

SWITCH = "HELPERS_PREFLIGHT"
"""``0``: nothing is tried before it is queued."""

_SAID_AFTER_S = 3.0
_KINDS_OF_AN_ARRAY = 20
_REMEMBERED_S = 86_400
_checked: set[str] = set()


def check_loads(
    data: bytes,
    description: Description,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Load a pickled call as the job will, and refuse what cannot be loaded.

    Args:
        data: The pickled call.
        description: What is submitted.
        function: What is called.
        args: Its arguments.
        kwargs: Its keyword arguments.

    Raises:
        InvalidRequest: Naming the argument or the function, the reason, and the line that it comes from.
    """
    _check([data], description, function, [(args, kwargs)])


def check_array_loads(
    calls: Calls,
    description: Description,
    function: Callable[..., Any],
    elements: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]],
) -> None:
    """Load the function of an array, and the arguments of one element of each kind, as the elements will.

    Raises:
        InvalidRequest: As :func:`check_loads` does.
    """
    kinds = {_kinds(*element): number for number, element in enumerate(elements)}
    chosen = sorted(kinds.values())[:_KINDS_OF_AN_ARRAY]
    parts = [calls.function, *(calls.arguments[number] for number in chosen)]
    _check(parts, description, function, [elements[number] for number in chosen])


def _check(
    parts: list[bytes],
    description: Description,
    function: Callable[..., Any],
    elements: list[tuple[tuple[Any, ...], Mapping[str, Any]]],
) -> None:
    if read_switch(os.environ, SWITCH) is False:
        return
    if description.rank_words[0] != description.python and not description.inside:
        print("helpers: the call is not tried before it is queued: only srun can start this container", file=sys.stderr)
        return
    key = _key(parts, description, function, elements)
    if key in _checked or _is_remembered(key, description):
        return
    answer = _ask(parts, description, said=f"the trial load of {description.function}")
    if answer is not None and answer["part"] is not None and not answer["memory"]:
        raise _refusal(answer, description, function, elements)
    if answer is not None:
        _checked.add(key)
        _remember(key, description)


def _key(
    parts: list[bytes],
    description: Description,
    function: Callable[..., Any],
    elements: list[tuple[tuple[Any, ...], Mapping[str, Any]]],
) -> str:
    """Return what one answer holds for.

    A function that is sent by value is itself part of the key, since it changes with each cell of a notebook;
    arguments count by their types.
    """
    by_value = b"" if _is_found_by_name(function) else b"".join(parts)
    kinds = [_kinds(*element) for element in elements]
    snapshot = description.source.get("snapshot")
    start = [*description.rank_words, stamp_of(description.container) if description.container else None]
    facts = (description.function, kinds, start, description.sys_path, description.directory, snapshot)
    return blake2b(repr(facts).encode(errors="surrogateescape") + by_value, digest_size=12).hexdigest()


def _is_found_by_name(function: Callable[..., Any]) -> bool:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    return (
        module is not None
        and module.__name__ != "__main__"
        and getattr(module, getattr(function, "__qualname__", ""), None) is function
    )


def _kinds(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_kind(value) for value in (*args, *kwargs.values()))


def _kind(value: object) -> str:
    if isinstance(value, str | int | float):
        return type(value).__qualname__ if type(value).__module__ == "builtins" else _type_name(value)
    inner: Iterable[object] = ()
    if isinstance(value, list | tuple | set | frozenset) and len(value) <= 100:  # noqa: PLR2004 -- a bound, no more
        inner = value
    elif isinstance(value, dict) and len(value) <= 100:  # noqa: PLR2004
        inner = value.values()
    kinds = ",".join(sorted({_kind(one) for one in inner}))
    return f"{type(value).__module__}.{type(value).__qualname__}[{kinds}]"


def _ask(parts: list[bytes], description: Description, *, said: str) -> dict[str, Any] | None:
    """Return the clean interpreter's answer; None where it gave none, which is said."""
    header = {
        "sys_path": description.sys_path,
        "own_packages": description.own_packages,
        "source": description.source,
        "sizes": [len(part) for part in parts],
    }
    given = json.dumps(header).encode() + b"\n" + b"".join(parts)
    with (
        tempfile.TemporaryFile() as errors,  # no pipe: what a module starts on import may hold it longer than the trial
        subprocess.Popen(
            [*description.rank_words[:-1], "helpers.runtime.rank.trial"],
            cwd=description.directory,
            env=_environment(Path(description.directory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            printed = _communicate(process, given, said)
        except subprocess.TimeoutExpired:
            process.kill()
            print(
                f"helpers: {said} took more than {TIME_LIMIT_S:.0f} s and was given up; the job is submitted unchecked",
                file=sys.stderr,
            )
            return None
        errors.seek(0)
        words = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    try:
        answer: dict[str, Any] = json.loads(printed)
    except ValueError:
        if description.container:
            raise InvalidRequest(
                f"Nothing can be run in the container {description.container}: {' '.join(words)}",
                hint="the image needs Python 3.11 or newer with this library's requirements; HELPERS_PREFLIGHT=0 "
                "submits all the same",
            ) from None
        print(
            f"helpers: {said} ended without an answer (exit code {process.returncode}) {' '.join(words)}; "
            "the job is submitted unchecked",
            file=sys.stderr,
        )
        return None
    return answer


def _communicate(process: subprocess.Popen[bytes], given: bytes, said: str) -> bytes:
    try:
        return process.communicate(given, timeout=min(_SAID_AFTER_S, TIME_LIMIT_S))[0]
    except subprocess.TimeoutExpired:
        print(f"helpers: {said} takes longer than usual; it is given up after {TIME_LIMIT_S:.0f} s", file=sys.stderr)
        return process.communicate(timeout=max(TIME_LIMIT_S - _SAID_AFTER_S, 0.0))[0]


def _environment(directory: Path) -> dict[str, str]:
    """Return the job's environment, with this library importable as the batch script makes it."""
    from helpers.submission.clusters.script import with_library

    secrets = read_secrets(find_project(directory) or directory)
    return with_library({**secrets, **without_scheduler_variables(os.environ)})


def _refusal(
    answer: dict[str, Any],
    description: Description,
    function: Callable[..., Any],
    elements: list[tuple[tuple[Any, ...], Mapping[str, Any]]],
) -> InvalidRequest:
    """Ask again with the parts one by one, and name the first that cannot be loaded."""
    named: dict[str, Any] = {f"the function {function_name(function)}": function}
    for args, kwargs in elements:
        named |= {f"argument {number} ({_type_name(value)})": value for number, value in enumerate(args)}
        named |= {f"argument {key!r} ({_type_name(value)})": value for key, value in kwargs.items()}
    parts = [
        dump_call(Call(value, (), {}) if value is function else Call(print, (value,), {})) for value in named.values()
    ]
    again = _ask(parts, description, said="the search for the part that cannot be loaded")
    what = f"the call of {function_name(function)}"
    if again is not None and again["part"] is not None:
        what, answer = list(named)[again["part"]], again
    place = f" ({answer['place']})" if answer["place"] else ""
    error = InvalidRequest(
        f"{what} cannot be loaded in a fresh interpreter, as the job would: {answer['kind']}: {answer['text']}{place}.",
        hint=advise(answer, description, function, is_argument=what.startswith("argument")),
    )
    error.add_note(f"In the fresh interpreter:\n{answer['traceback']}")
    return error


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _mark(key: str, description: Description) -> Path | None:
    """Return the file that says that this was checked; None where the code has no known state.

    It is named after what is installed too: a folder of the search path gets another time when a package comes
    or goes.
    """
    snapshot = description.source.get("snapshot")
    if snapshot is None:
        return None
    stamps = [stamp_of(entry) for entry in description.sys_path if "site-packages" in entry or "dist-packages" in entry]
    installed = blake2b(repr(stamps).encode(), digest_size=6).hexdigest()
    return Path(snapshot).parent / f".loads-{key}-{installed}"


def _is_remembered(key: str, description: Description) -> bool:
    mark = _mark(key, description)
    try:
        fresh = mark is not None and time.time() - mark.stat().st_mtime < _REMEMBERED_S
    except OSError:
        return False
    if fresh:
        _checked.add(key)
    return fresh


def _remember(key: str, description: Description) -> None:
    mark = _mark(key, description)
    if mark is not None:
        try:
            mark.touch()
        except OSError:
            return  # only a later process would have saved a second by it
