"""Guess a template's answers from a project that was not made from it."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

_NO_PACKAGE = {"build", "data", "dist", "docs", "notebooks", "reports", "runs", "scripts", "src", "test", "tests"}
_PACKAGE_NAME = re.compile(r"[a-z][a-z0-9_]{,49}")  # the template's own rule


def answers_for(project: Path) -> dict[str, str]:
    """Return what can be known of a project; for the rest, the template's defaults hold.

    Raises:
        InvalidRequest: If its ``pyproject.toml`` is no valid TOML.
    """
    table = read_pyproject(project).get("project", {})
    table = table if isinstance(table, dict) else {}
    authors = [author.get("name") for author in table.get("authors", ()) if isinstance(author, dict)]
    description = str(table.get("description", "")).strip()
    package = package_of(project)
    answers = {
        "project_name": str(table.get("name") or project.resolve().name),
        "package_name": package if package and _PACKAGE_NAME.fullmatch(package) else None,
        "description": description.splitlines()[0] if description else None,
        "author_name": next(filter(None, authors), None),
    }
    return {name: answer for name, answer in answers.items() if answer}


def read_pyproject(project: Path) -> dict[str, Any]:
    """Return ``pyproject.toml``; nothing where there is none.

    Raises:
        InvalidRequest: If it is no valid TOML.
    """
    file = project / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} is no valid TOML: {error}.") from error


def package_of(project: Path) -> str | None:
    """Return the one package of the project; None where there is none, or several."""
    for folder in (project / "src", project):
        found = [path.parent.name for path in folder.glob("*/__init__.py") if path.parent.name not in _NO_PACKAGE]
        if found:
            return found[0] if len(found) == 1 else None
    return None
