"""Carry a call into the job and its value or exception back, by pickle, from folders that are ours alone."""

from __future__ import annotations

import contextlib
import functools
import io
import marshal
import pickle
import sys
import types
from collections import ChainMap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from helpers.runtime.run.element import array_of
from helpers.runtime.run.folder import RunFolder, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Call:
    """A function with its arguments, to be called once in each rank."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        """Call the function and return its value; a job among the arguments stands for its result."""
        kwargs = {name: _resolve(value) for name, value in self.kwargs.items()}
        return self.function(*map(_resolve, self.args), **kwargs)


@dataclass(frozen=True)
class ResultOf:
    """Stands among the arguments for what another run returns, which is loaded when the job begins."""

    folder: str


def _resolve(value: Any) -> Any:
    return load_result(RunFolder(Path(value.folder)), 0) if isinstance(value, ResultOf) else value


@dataclass(frozen=True)
class Calls:
    """The calls of an array: the function once, and each element's arguments apart.

    An element unpickles its own arguments only.
    """

    function: bytes
    arguments: list[bytes]

    @classmethod
    def of(
        cls, function: Callable[..., Any], arguments: list[tuple[tuple[Any, ...], dict[str, Any]]], *, at_most: float
    ) -> Calls:
        """Pickle the parts; those that come after ``at_most`` bytes are left out, for it is too large anyway."""
        pickled, size = [], 0
        for one in arguments:
            pickled.append(_dumps(one))
            size += len(pickled[-1])
            if size > at_most:
                break
        return cls(_dumps(function), pickled)

    def call(self, index: int) -> Call:
        """Return one element's call."""
        args, kwargs = pickle.loads(self.arguments[index])
        return Call(pickle.loads(self.function), args, kwargs)


def write_calls(array: RunFolder, calls: Calls) -> None:
    """Write the calls of an array, readable by the owner alone."""
    write_private(array.calls, pickle.dumps(calls), durable=False)


def dump_call(call: Call) -> bytes:
    """Return the pickled call.

    Functions of a script or a notebook, lambdas and closures go by value (cloudpickle), the rest by name.
    """
    return _dumps(call)


def write_call(run: RunFolder, data: bytes, *, durable: bool = True) -> None:
    """Write the pickled call, readable by the owner alone."""
    write_private(run.call, data, durable=durable)


def keep_first_call(run: RunFolder) -> None:
    """Put the call as it was submitted aside, before another takes its place: a rerun begins with it."""
    if run.call.exists() and not run.first_call.exists():
        write_private(run.first_call, run.call.read_bytes())


def load_call(run: RunFolder) -> Call:
    """Return the call that was submitted, of an array's element too."""
    array = array_of(run)
    if array is not None and not run.call.exists():
        calls: Calls = _load(array.calls)
        return calls.call(int(run.path.name))
    call: Call = _load(run.call)
    return call


class NotWritten(OSError):
    """The value could be pickled, and the disk did not take it."""


def save_result(run: RunFolder, rank: int, value: Any) -> None:
    """Save what the function returned.

    Raises:
        NotWritten: If the disk does not take it; no file is left then.
        Exception: Whatever pickling the value raises.
    """
    data = _dumps(value)
    try:
        write_private(run.result(rank), data)
    except OSError as error:
        raise NotWritten(error.errno, error.strerror, str(run.result(rank))) from error


def load_result(run: RunFolder, rank: int) -> Any:
    """Return what the function returned in ``rank``."""
    return _load(run.result(rank))


def save_exception(run: RunFolder, attempt: int, rank: int, error: BaseException) -> None:
    """Save the exception, if it survives the way; where it does not, its text in the outcome has to do.

    A class whose ``__init__`` takes other arguments than it hands to ``Exception`` pickles well and fails
    when it is loaded, so it is loaded here, where that can be seen.
    """
    try:
        data = _dumps(error.with_traceback(None))
        pickle.loads(data)
    except Exception:  # noqa: BLE001 -- pickling runs the user's code
        return
    with contextlib.suppress(OSError):  # it may hold a batch, and the outcome still have room
        write_private(run.exception(attempt, rank), data)


def load_exception(run: RunFolder, attempt: int, rank: int) -> BaseException | None:
    """Return the exception that ``rank`` raised; None where it could not be saved or cannot be rebuilt."""
    try:
        error = _load(run.exception(attempt, rank))
    except PermissionError:
        raise
    except Exception:  # noqa: BLE001 -- unpickling runs the user's code: a missing module, a changed class
        return None
    return error if isinstance(error, BaseException) else None


def _dumps(value: Any) -> bytes:
    buffer = io.BytesIO()
    _pickler()(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


@functools.cache
def _pickler() -> type[Any]:
    """Return cloudpickle's pickler, which keeps the file names of code that goes by value.

    cloudpickle drops them, and a traceback from the job would not show the user's file and line.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no type information
        dispatch_table: ClassVar[Any] = ChainMap(_REDUCERS, cloudpickle.Pickler.dispatch_table)

    return Pickler


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    return _load_code, (sys.version_info[:2], marshal.dumps(code))


def _load_code(version: tuple[int, int], data: bytes) -> Any:
    """Rebuild code that went by value; another Python, as a container may have it, reads other instructions."""
    if version != sys.version_info[:2]:
        then, now = (".".join(map(str, numbers)) for numbers in (version, sys.version_info[:2]))
        raise TypeError(
            f"code of Python {then} cannot run in Python {now}: put the function into a module, which goes by its name"
        )
    return marshal.loads(data)  # noqa: S302 -- guarded by owner and mode of the folder, as all that is unpickled


_REDUCERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {types.CodeType: _reduce_code}


def _load(path: Path) -> Any:
    return pickle.loads(read_private(path))
