"""Say what to do about a call that cannot be loaded in a clean interpreter."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.submission.arguments import qualified_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from helpers.runtime.run.description import Description


def advise(
    answer: Mapping[str, Any], description: Description, function: Callable[..., Any], *, is_argument: bool
) -> str:
    """Return what to do about a part of a call that the clean interpreter cannot load.

    Args:
        answer: What that interpreter said of it.
        description: What was to be submitted.
        function: What was to be called.
        is_argument: Whether the part is an argument; else the function, or the call as a whole.
    """
    if answer["left"]:
        return 'code that runs on import belongs under: if __name__ == "__main__":'
    if answer["missing"]:
        return _hint_for_missing(answer["missing"])
    if answer["kind"] == "AttributeError" and "__main__" in answer["text"]:
        return "move the class or function into a module of its own, and import it from there"
    if is_argument:
        return "pass what it is made from (a path, a configuration) and make it inside the function"
    return _hint_for_function(answer, description, function)


def _hint_for_function(answer: Mapping[str, Any], description: Description, function: Callable[..., Any]) -> str:
    if answer["kind"] == "AttributeError":
        return f"it exists in this session only: save {_file_of(function)}, or define it at the top of its module"
    module = qualified_name(function).rpartition(".")[0]
    if module == "__main__":
        return "a variable that it uses cannot be loaded: make it inside the function"
    return f"cd {shlex.quote(description.directory)} && {shlex.quote(description.python)} -c 'import {module}'"


def _hint_for_missing(name: str) -> str:
    module = sys.modules.get(name)
    if module is None:
        return f"install {name}, or put its folder on PYTHONPATH before you submit"
    place = getattr(module, "__file__", None)
    if place is None:
        return f"{name} was made in this session and is no file: write it into one"
    return f"this session found it at {place}, off its search path: PYTHONPATH={_search_folder(name, place)}"


def _search_folder(name: str, place: str) -> str:
    file = Path(place)
    package = file.parent if file.stem == "__init__" else file
    return str(package.parents[name.count(".")])


def _file_of(function: Callable[..., Any]) -> str:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    return getattr(module, "__file__", None) or "its module"
