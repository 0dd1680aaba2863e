"""Find the function that ``module:function`` names, as ``python -m`` would find the module."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.util
import pkgutil
import shlex
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
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module_name, name = _split(target)
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
    if colon and name and module and not is_path:
        return module, name
    functions = _functions_in(_file_of(module))
    if not colon and not is_path and "." in module and functions is None:
        module, _, name = module.rpartition(".")
    name = name or ("main" if not functions or "main" in functions else functions[0])
    raise InvalidRequest(
        f"What to run is written as module:function; got {target!r}.",
        hint=f"helpers submit {module}:{name}" if module else _EXAMPLE,
    )


def _file_of(module: str) -> Path | None:
    """Return where a module is, without importing any of it."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    places = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next((file for file in files if file.is_file()), None)


def _functions_in(file: Path | None) -> list[str] | None:
    """Return the public functions of a module's file, in their order; None where it cannot be read."""
    try:
        parsed = ast.parse(file.read_bytes()) if file else None
    except (OSError, SyntaxError, ValueError):
        return None
    if parsed is None:
        return None
    return [part.name for part in parsed.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")]


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _no_module(name, error.name) from None
        if error.name is not None and importlib.util.find_spec(error.name.partition(".")[0]) is None:
            raise _not_installed(name, error) from None
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


def _not_installed(name: str, error: ModuleNotFoundError) -> InvalidRequest:
    """Name the package that a module needs and this Python has not got, and the line that needs it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    package = (error.name or "").partition(".")[0]
    return InvalidRequest(
        f"{name} needs {package!r}, which is not installed in {sys.executable} ({last.filename}, line {last.lineno}).",
        hint=f"{shlex.quote(sys.executable)} -m pip install {package}; in a project, add it to the dependencies in "
        "pyproject.toml, then: make setup",
    )


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
