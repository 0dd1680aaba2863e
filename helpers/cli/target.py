"""Find the function that ``module:function`` names, as ``python -m`` would find the module."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import pkgutil
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_EXAMPLE = "helpers submit train:main lr=1e-3"


def load_function(target: str) -> Callable[..., Any]:
    """Import the module, from the current folder or the environment, and return its function.

    What the module prints while it is imported goes to stderr: stdout is for the answer.

    Raises:
        InvalidRequest: If there is no such module or function, with the nearest name, or the import fails.
    """
    module_name, name = _split(target)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with contextlib.redirect_stdout(sys.stderr):
        module = _import(module_name)
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise _no_function(module_name, name, value) from None
    if not callable(value):
        raise InvalidRequest(
            f"{target} is no function: it is {value!r:.80}.", hint=_functions_hint(module_name, _functions_of(module))
        )
    function: Callable[..., Any] = value
    return function


def _split(target: str) -> tuple[str, str]:
    module, colon, name = target.partition(":")
    is_path = module.endswith(".py") or "/" in module
    if is_path:
        module = module.removesuffix(".py").removeprefix("./").strip("/").replace("/", ".")
    if not colon and not is_path and "." in module:
        module, _, name = module.rpartition(".")
    if is_path or not colon or not name or not module:
        raise InvalidRequest(
            f"What to run is written as module:function; got {target!r}.",
            hint=f"helpers submit {module}:{name or 'main'}" if module else _EXAMPLE,
        )
    return module, name


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _no_module(name, error.name) from None
        raise _broken_module(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken_module(name, error) from error


def _no_module(name: str, missing: str) -> InvalidRequest:
    parent, _, last = missing.rpartition(".")
    paths = list(importlib.import_module(parent).__path__) if parent in sys.modules else [str(Path.cwd())]
    there = [module.name for module in pkgutil.iter_modules(paths)]
    there += (
        [] if parent else [path.name for path in Path.cwd().iterdir() if path.is_dir() and path.name.isidentifier()]
    )
    near = _nearest(last, there)
    hint = f"did you mean {'.'.join(filter(None, (parent, near)))}?" if near else f"run it where {name} can be imported"
    return InvalidRequest(f"There is no module {missing!r} in {Path.cwd()} or among what is installed.", hint=hint)


def _broken_module(name: str, error: BaseException) -> InvalidRequest:
    """Show the user's own lines of the traceback, not the machinery of the import."""
    frames = error.__traceback__
    while frames is not None and _is_machinery(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames, chain=False)).rstrip()
    hint = f"python -c 'import {name}'"
    if isinstance(error, SystemExit):
        hint = 'what runs as a script stands under: if __name__ == "__main__":'
    return InvalidRequest(f"{name} cannot be imported.\n{text}", hint=hint)


def _is_machinery(filename: str) -> bool:
    return filename in {__file__, importlib.__file__} or filename.startswith("<frozen importlib")


def _no_function(module_name: str, name: str, where: Any) -> InvalidRequest:
    there = _functions_of(where)
    near = _nearest(name.rpartition(".")[2], there)
    hint = f"did you mean {module_name}:{near}?" if near else _functions_hint(module_name, there)
    return InvalidRequest(f"{module_name} has no function {name!r}.", hint=hint)


def _functions_of(where: Any) -> list[str]:
    """Return the callables that were defined there, rather than imported into it."""
    home = getattr(where, "__name__", None) if isinstance(where, ModuleType) else getattr(where, "__module__", None)
    named = ((name, getattr(where, name, None)) for name in dir(where) if not name.startswith("_"))
    return [name for name, value in named if callable(value) and getattr(value, "__module__", None) == home]


def _functions_hint(module_name: str, functions: Iterable[str]) -> str:
    listed = ", ".join(functions)
    return f"{module_name} has: {listed}" if listed else f"{module_name} defines no function"


def _nearest(name: str, there: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(there), n=1)), None)
