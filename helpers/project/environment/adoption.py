"""Take a list of packages of elsewhere, of pip or of conda, into the one list."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.environment.conda_file import read_conda_file
from helpers.project.environment.generated import CONDA_FILE, is_made
from helpers.project.environment.requirements import (
    Dependencies,
    Requirement,
    parse_requirement,
    read_dependencies,
    require_list,
)
from helpers.project.environment.toml_list import add_to_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASHES = re.compile(r"\s--hash=\S+")
_INCLUDE = re.compile(r"(?:-r|--requirement)[=\s]+(\S+)")
_EGG = re.compile(r"#egg=([A-Za-z0-9._-]+)")
_CONDA_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_KEPT_AS = "environment.before.yml"


@dataclass(kw_only=True)
class Adopted:
    """What became of the lines of a file.

    Args:
        conda: Added to the list; conda installs them.
        pip: Added to the list; pip installs them.
        conda_only: Added to ``conda_only``: what may be no Python.
        known: In the list already, which stays as it is.
        left: What is no requirement: options, folders, channels.
        kept: Where the project's own ``environment.yml`` is now, since one is made in its place; else empty.
    """

    conda: list[str] = field(default_factory=list)
    pip: list[str] = field(default_factory=list)
    conda_only: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    kept: str = ""


def adopt(project: Path, file: Path) -> Adopted:
    """Add what a requirements or a conda file asks for to ``pyproject.toml``; what is there stays.

    Args:
        project: The project's folder.
        file: ``requirements.txt``, or a conda file: it ends with ``.yml`` or ``.yaml``.

    Raises:
        InvalidRequest: If a file is missing, or there is no list to add to.
    """
    dependencies = read_dependencies(project)
    require_list(dependencies, project)
    adopted = Adopted()
    lines: Iterable[str] = _lines(file, ())
    only: list[str] = []
    if file.suffix in {".yml", ".yaml"}:
        found = read_conda_file(file)
        lines = [*found.requirements, *_clean("\n".join(found.pip), file, (file,))]
        only = found.conda_only
        adopted.left += found.left
    new = _sort(lines, dependencies, adopted)
    adopted.conda_only = _new_names(only, dependencies, adopted)
    keeping = file.exists() and file.resolve() == (project / CONDA_FILE).resolve() and not is_made(file)
    if keeping and (project / _KEPT_AS).exists():
        raise InvalidRequest(
            f"{project / _KEPT_AS} is there already; your {CONDA_FILE} would be kept under that name.",
            hint=f"git mv {_KEPT_AS} another-name",
        )
    if new:
        add_to_list(project / "pyproject.toml", ("project", "dependencies"), new)
    if adopted.conda_only:
        add_to_list(project / "pyproject.toml", ("tool", "helpers", "environment", "conda_only"), adopted.conda_only)
    if keeping:
        file.rename(project / _KEPT_AS)
        adopted.kept = _KEPT_AS
    return adopted


def _sort(lines: Iterable[str], dependencies: Dependencies, adopted: Adopted) -> list[str]:
    """Put each line where it belongs; return the requirements that are new, in their order."""
    known = {one.name for one in dependencies.requirements}
    new = []
    for line in lines:
        requirement = _requirement(line)
        if requirement is None:
            adopted.left.append(line)
        elif requirement.name in known:
            adopted.known.append(line)
        else:
            known.add(requirement.name)
            new.append(requirement.text)
            (adopted.conda if dependencies.by_conda(requirement) else adopted.pip).append(requirement.text)
    return new


def _new_names(only: list[str], dependencies: Dependencies, adopted: Adopted) -> list[str]:
    """Return what conda alone has, less what the project has named already."""
    known = {_conda_name(one) for one in dependencies.conda_only}
    adopted.known += [one for one in only if _conda_name(one) in known]
    return [one for one in only if _conda_name(one) not in known]


def _conda_name(text: str) -> str:
    match = _CONDA_NAME.match(text)
    return match[0].lower() if match else text


def _lines(file: Path, including: tuple[Path, ...]) -> Iterator[str]:
    """Yield the lines that say something, those of included files too."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}.", hint="ls *requirements*.txt") from error
    yield from _clean(text, file, (*including, file))


def _clean(text: str, file: Path, including: tuple[Path, ...]) -> Iterator[str]:
    for raw in text.replace("\\\n", " ").splitlines():
        line = _HASHES.sub("", _COMMENT.sub("", raw)).strip()
        include = _INCLUDE.fullmatch(line)
        if include is not None:
            other = file.parent / include[1]
            yield from () if other in including else _lines(other, including)
        elif line:
            yield line


def _requirement(line: str) -> Requirement | None:
    """Return the requirement of a line; None where it is an option, a folder or a bare address without a name."""
    egg = _EGG.search(line)
    if egg is not None and not line.startswith("-"):
        line = f"{egg[1]} @ {line.replace(egg[0], '')}"
    try:
        return None if line.startswith(("-", ".", "/")) else parse_requirement(line, "requirements")
    except InvalidRequest:
        return None
