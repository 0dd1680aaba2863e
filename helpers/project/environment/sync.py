"""Bring the files that are made from the list up to date, or say how they differ from it.

A file that was not made here is the project's own: it is neither written nor compared.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.environment.generated import CONDA_FILE, CONTAINER_FILE, conda_file, container_file, is_made
from helpers.project.environment.lock import LOCK_FILE, lock_file, lock_problems, missing
from helpers.project.environment.requirements import read_dependencies, require_list
from helpers.runtime.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.project.environment.requirements import Dependencies

_MODE = 0o644


def sync(project: Path, *, lock: bool = False) -> list[str]:
    """Write what is not as the list says, and return the names of the files that have changed.

    A lock that is there and has fallen behind the list is made anew, once what the list asks for is installed.

    Args:
        project: The project's folder.
        lock: Whether to pin what is installed now in any case.

    Raises:
        InvalidRequest: If there is no list, or it is wrong; for a lock, if what is installed is not what the list asks
            for, or another program's lock is there.
    """
    dependencies = read_dependencies(project)
    require_list(dependencies, project)
    texts = {name: text for name, text in _texts(dependencies).items() if name not in own_files(project)}
    pins = _pins(project, dependencies, is_asked=lock)
    if pins is not None:
        texts[LOCK_FILE] = pins
    changed = [name for name, text in texts.items() if _read(project / name) != text]
    for name in changed:
        write_whole(project / name, texts[name].encode(), mode=_MODE)
    return changed


def own_files(project: Path) -> list[str]:
    """Return which of the files were not made from the list: somebody wrote them, or another program."""
    return [
        name
        for name in (CONDA_FILE, CONTAINER_FILE, LOCK_FILE)
        if (project / name).exists() and not is_made(project / name)
    ]


def differences(project: Path) -> list[str]:
    """Return how the files differ from the list: a diff of what is made from it, and a line for each pin.

    Without a list in ``pyproject.toml`` nothing is made, and nothing differs.

    Raises:
        InvalidRequest: If the list is wrong.
    """
    dependencies = read_dependencies(project)
    if not dependencies.is_listed:
        return []
    own = own_files(project)
    lines: list[str] = []
    for name, text in _texts(dependencies).items():
        if name not in own:
            here = (_read(project / name) or "").splitlines()
            made = text.splitlines()
            lines += difflib.unified_diff(here, made, f"{name} as it is", f"{name} by pyproject.toml", lineterm="")
    lock = _read(project / LOCK_FILE)
    return lines + (lock_problems(dependencies, lock) if lock is not None and LOCK_FILE not in own else [])


def _texts(dependencies: Dependencies) -> dict[str, str]:
    return {CONDA_FILE: conda_file(dependencies), CONTAINER_FILE: container_file(dependencies)}


def _pins(project: Path, dependencies: Dependencies, *, is_asked: bool) -> str | None:
    """Return the new text of the lock; None where it stays as it is."""
    is_own = LOCK_FILE in own_files(project)
    if is_asked and is_own:
        raise InvalidRequest(
            f"{project / LOCK_FILE} was not made by helpers, and is not overwritten.",
            hint=f"git mv {LOCK_FILE} another-name",
        )
    here = _read(project / LOCK_FILE)
    if is_own or not (is_asked or (here is not None and lock_problems(dependencies, here))):
        return None
    text = lock_file(dependencies)
    wrong = [f"{name} is not installed" for name in missing(dependencies)] or lock_problems(dependencies, text)
    if wrong and is_asked:
        raise InvalidRequest(
            f"What is installed here is not what the list asks for, so it cannot be pinned: {'; '.join(wrong)}.",
            hint="activate the project's environment, or: make setup",
        )
    return None if wrong else text


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
