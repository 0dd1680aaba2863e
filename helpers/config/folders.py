"""Find the project that a call belongs to, and the folders that settings name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.config.files import project_table
from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from helpers.config.layers import Entry, Settings

RUNS_VARIABLE = "HELPERS_RUNS"
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_OTHERS_MAY_WRITE = 0o002
_ROOT = 0


def working_directory() -> Path:
    """Return the current folder as the user sees it (``$PWD``): a resolved link may not exist on the nodes."""
    shown = os.environ.get("PWD", "")
    if shown.startswith("/") and os.path.exists(shown) and os.path.samefile(shown, "."):  # noqa: PTH110, PTH121 -- often
        return Path(shown)
    return Path.cwd()


def find_project(start: Path) -> Path | None:
    """Return the nearest folder, from ``start`` upwards, whose ``pyproject.toml`` has ``[tool.helpers]``.

    A file that somebody else has put into a folder that everybody can write to, such as ``/tmp``, is passed by:
    settings hold shell lines.
    """
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if project_table(file) is not None and _is_trusted(file):
            return folder
    return None


def _is_trusted(file: Path) -> bool:
    return file.stat().st_uid in {os.getuid(), _ROOT} or not file.parent.stat().st_mode & _OTHERS_MAY_WRITE


def runs_folder(start: Path, settings: Settings | None = None) -> Path:
    """Return where runs are kept: ``storage.runs``, below the project (or ``start``) where it is no whole path.

    Args:
        start: The folder that is worked in.
        settings: Those of ``start``, where they have been read already.
    """
    folder = storage_folder("runs", start, settings)
    if folder is None:
        raise AssertionError("the library's own setting is the last")
    return folder


def storage_folder(name: str, start: Path, settings: Settings | None = None) -> Path | None:
    """Return the folder that ``[storage]`` names; None where no layer does.

    Args:
        name: ``"runs"``, ``"data"``, ``"caches"`` or ``"archive"``.
        start: The folder that is worked in.
        settings: Those of ``start``, where they have been read already.

    Raises:
        InvalidRequest: If a variable in it is not set.
    """
    if settings is None:
        from helpers.config.layers import read_settings

        settings = read_settings(start)
    entry = settings.entry(f"storage.{name}")
    if entry is None:
        return None
    base = start if entry.origin.layer == "environment" else (find_project(start) or start)
    return (base / _fill_in(entry)).absolute()


def _fill_in(entry: Entry) -> Path:
    return fill_in(entry.value, f"{entry.origin}: {entry.key}")


def fill_in(text: str, where: str) -> Path:
    """Return a path with ``~`` and ``$VARIABLES`` filled in.

    Raises:
        InvalidRequest: If a variable is not set: the folder would be called ``$SCRATCH``.
    """
    for match in _VARIABLE.finditer(text):
        name = match[1] or match[2]
        if name not in os.environ:
            raise InvalidRequest(f"{where} is {text!r}, and ${name} is not set here.", hint=f"export {name}=/a/folder")
    return Path(os.path.expandvars(text)).expanduser()
