"""Carry a call into the job and its value or exception back, by pickle, from folders that are ours alone."""

from __future__ import annotations

import io
import marshal
import pickle
import types
from collections import ChainMap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from helpers.runtime.files import write_whole
from helpers.runtime.run_folder import check_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.runtime.run_folder import RunFolder

_PRIVATE_FILE = 0o600


@dataclass(frozen=True)
class Call:
    """A function with its arguments, to be called once in each rank."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        """Call the function and return its value."""
        return self.function(*self.args, **self.kwargs)


def dump_call(call: Call) -> bytes:
    """Return the pickled call.

    Functions of a script or a notebook, lambdas and closures go by value (cloudpickle), the rest by name.
    """
    return _dumps(call)


def write_call(run: RunFolder, data: bytes, *, durable: bool = True) -> None:
    """Write the pickled call, readable by the owner alone."""
    write_whole(run.call, data, mode=_PRIVATE_FILE, durable=durable)


def load_call(run: RunFolder) -> Call:
    """Return the call that was submitted."""
    call: Call = _load(run.call)
    return call


def save_result(run: RunFolder, rank: int, value: Any) -> None:
    """Save what the function returned.

    Raises:
        Exception: Whatever pickling the value raises; no file is left then.
    """
    write_whole(run.result(rank), _dumps(value), mode=_PRIVATE_FILE)


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
    write_whole(run.exception(attempt, rank), data, mode=_PRIVATE_FILE)


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
    """Pickle by cloudpickle, keeping the file names of code that goes by value.

    cloudpickle drops them, and a traceback from the job would not show the user's file and line.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no type information
        dispatch_table: ClassVar[Any] = ChainMap(_REDUCERS, cloudpickle.Pickler.dispatch_table)

    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    return marshal.loads, (marshal.dumps(code),)


_REDUCERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {types.CodeType: _reduce_code}


def _load(path: Path) -> Any:
    check_private(path.parent)
    return pickle.loads(path.read_bytes())
