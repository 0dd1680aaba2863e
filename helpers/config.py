"""Find the project that a call belongs to, and what it sets."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from helpers.errors import InvalidRequest

RUNS_VARIABLE = "HELPERS_RUNS"


def working_directory() -> Path:
    """Return the current folder as the user sees it (``$PWD``): a resolved link may not exist on the nodes."""
    shown = os.environ.get("PWD")
    here = Path.cwd()
    if shown and Path(shown).is_absolute() and Path(shown).exists() and Path(shown).samefile(here):
        return Path(shown)
    return here


def find_project(start: Path) -> Path | None:
    """Return the nearest folder, from ``start`` upwards, whose ``pyproject.toml`` has ``[tool.helpers]``."""
    for folder in (start, *start.parents):
        if _settings(folder / "pyproject.toml") is not None:
            return folder
    return None


def runs_folder(start: Path) -> Path:
    """Return where runs are kept.

    ``$HELPERS_RUNS``, else ``storage.runs`` of the project's ``[tool.helpers]``, else ``runs/`` in the project,
    else ``runs/`` in ``start``.
    """
    if os.environ.get(RUNS_VARIABLE):
        return Path(os.environ[RUNS_VARIABLE]).expanduser().absolute()
    project = find_project(start)
    if project is None:
        return start / "runs"
    settings = _settings(project / "pyproject.toml") or {}
    runs = settings.get("storage", {}).get("runs", "runs")
    return (project / Path(os.path.expandvars(runs)).expanduser()).absolute()


def _settings(file: Path) -> dict[str, Any] | None:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return None
    if "helpers" not in text:
        return None
    try:
        settings: dict[str, Any] | None = tomllib.loads(text).get("tool", {}).get("helpers")
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{file} is no valid TOML: {error}.") from error
    return settings
