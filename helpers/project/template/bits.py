"""Add to a project that was not made from the template the few lines that the library and the checks need."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.environment.requirements import parse_requirement
from helpers.project.environment.toml_list import add_to_list
from helpers.project.template.answers import package_of, read_pyproject
from helpers.project.template.pin import requirement_of

if TYPE_CHECKING:
    from pathlib import Path

_MARK = """
# Marks the root of the project. `helpers config explain` shows every setting and where it comes from.
[tool.helpers.storage]
runs = "runs"
"""
_LIST = """
[project]
name = "{name}"
version = "0.1.0"
requires-python = "{python}"
dependencies = []
"""
_RAW = "/data/raw/"  # which raw data is in git, the project has settled
_HEADING = "# From the template of the lab"
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")


def add_bits(project: Path, render: Path) -> list[str]:
    """Add lines at the end of files, and files that are missing; return the paths of those that were changed.

    Args:
        project: The project.
        render: The same project, had it been made from the template.
    """
    is_made_by_template = not any(os.path.lexists(project / name) for name in _MAKEFILES)
    added = {
        "pyproject.toml": _complete_pyproject(project, render, with_tools=is_made_by_template),
        ".gitignore": add_ignored(project, ignored_in(render)),
        "Makefile": is_made_by_template and _add_recipes(project / "Makefile", render / "Makefile"),
    }
    return [path for path, is_added in added.items() if is_added]


def has_list(project: Path) -> bool:
    """Say whether the dependencies stand in ``[project]``, or may: no other file says them."""
    known = read_pyproject(project)
    if "project" in known:
        return "dependencies" not in known["project"].get("dynamic", ())
    others = any((project / name).exists() for name in ("setup.py", "setup.cfg"))
    return not others and "poetry" not in known.get("tool", {})


def _complete_pyproject(project: Path, render: Path, *, with_tools: bool) -> bool:
    """Mark the root, begin the list of dependencies, and name in it the library and the tools of the recipes."""
    file = project / "pyproject.toml"
    before = file.read_bytes() if file.exists() else b""
    known, wanted = read_pyproject(project), read_pyproject(render)["project"]
    text = ""
    if "project" not in known and has_list(project):
        text += _LIST.format(name=wanted["name"], python=wanted["requires-python"])
        if "setuptools" not in known.get("tool", {}):
            text += _packages(project)
    if "helpers" not in known.get("tool", {}):
        text += _MARK
    if text:
        _append(file, before, text)
    if has_list(project):
        _add_names(file, ("dependencies",), [requirement_of(render)])
        tools = wanted["optional-dependencies"]["dev"]
        if with_tools and "optional-dependencies" not in known.get("project", {}).get("dynamic", ()):
            _add_names(file, ("optional-dependencies", "dev"), tools)
    return file.exists() and file.read_bytes() != before


def _append(file: Path, before: bytes, text: str) -> None:
    """Write a TOML file with tables at its end.

    Raises:
        InvalidRequest: If it is written so that none can be added.
    """
    content = (before + _line_end(before) + text.encode()) if before else text.lstrip().encode()
    try:
        tomllib.loads(content.decode())
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(
            f"{file}: a program cannot add tables at its end: {error}.", hint=f"write them there:{text}"
        ) from error
    file.write_bytes(content)


def _packages(project: Path) -> str:
    """Return which folders pip installs: what setuptools would guess of a folder with data and scripts is an error."""
    package = package_of(project)
    if (project / "src").is_dir():
        return '\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'
    if package:
        return f'\n[tool.setuptools.packages.find]\ninclude = ["{package}", "{package}.*"]\n'
    return "\n[tool.setuptools]\npackages = [] # scripts alone\n"


def _add_names(file: Path, keys: tuple[str, ...], wanted: list[str]) -> None:
    """Add to a list of ``[project]`` the requirements whose names are not in it."""
    value = read_pyproject(file.parent)["project"]
    for key in keys:
        value = value.get(key, {})
    there = {parse_requirement(text, str(file)).name for text in value}
    new = [text for text in wanted if text and parse_requirement(text, str(file)).name not in there]
    if new:
        add_to_list(file, ("project", *keys), new)


def ignored_in(render: Path) -> list[str]:
    """Return the lines of the template's ``.gitignore`` that fit any project."""
    file = render / ".gitignore"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line for line in lines if line and not line.startswith("#") and _RAW not in line]


def add_ignored(project: Path, lines: list[str]) -> bool:
    """Add to ``.gitignore`` the lines that are not in it."""
    file = project / ".gitignore"
    before = file.read_bytes() if file.exists() else b""
    there = set(before.decode("utf-8", errors="replace").splitlines())
    missing = [line for line in lines if line not in there]
    if missing:
        head = before + _line_end(before) + b"\n" if before else b""
        file.write_bytes(head + "\n".join([_HEADING, *missing, ""]).encode())
    return bool(missing)


def _add_recipes(file: Path, rendered: Path) -> bool:
    """Write the recipes that need no package made from the template."""
    blocks = rendered.read_text(encoding="utf-8").split("\n\n")
    general = [block for block in blocks if not _is_of_package(block)]
    dropped = {block.split(":")[0] for block in blocks if _is_of_package(block)}
    phony = [
        " ".join(word for word in line.split(" ") if word not in dropped) if line.startswith(".PHONY") else line
        for line in "\n\n".join(general).split("\n")
    ]
    file.write_text("\n".join(phony).rstrip("\n") + "\n", encoding="utf-8")
    return True


def _is_of_package(block: str) -> bool:
    """Say whether a recipe runs a command of the generated package, its workflow or its environment files."""
    return not block.startswith(("#", ".")) and any(word in block for word in (" train", " evaluate", "snakemake"))


def _line_end(content: bytes) -> bytes:
    return b"" if not content or content.endswith(b"\n") else b"\n"
