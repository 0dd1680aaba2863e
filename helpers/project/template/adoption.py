"""Bring a project that exists to the template's standard: add what is missing, overwrite nothing, move nothing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.environment.generated import CONDA_FILE
from helpers.project.environment.requirements import read_dependencies
from helpers.project.environment.sync import own_files, sync
from helpers.project.template.answers import answers_for
from helpers.project.template.bits import add_bits, has_list
from helpers.project.template.ownership import Ownership
from helpers.project.template.pin import requirement_of
from helpers.project.template.rendering import finish_rendering, require_cookiecutter, start_rendering
from helpers.project.template.stamp import STAMP, Stamp, read_stamp, write_stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.project.template.checkout import Checkouts

_DISTRIBUTION = "slurm-torch-helpers"


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """What was done to a project.

    Args:
        stamp: The stamp that it has now.
        added: Files that were added.
        extended: Files that got lines; what was in them stays.
        left: Files that the template has too, with other content: left as they are, and never updated.
        next_steps: What is for a person to do, in sentences.
    """

    stamp: Stamp
    added: tuple[str, ...]
    extended: tuple[str, ...]
    left: tuple[str, ...]
    next_steps: tuple[str, ...]


def adopt(project: Path, room: Checkouts, *, template: str | None = None, to: str | None = None) -> Adoption:
    """Give a project the template's checks and stamp.

    Args:
        project: The project's root.
        room: Where templates are fetched to.
        template: Folder or URL of the template; None for the repository that this library was installed from.
        to: A commit, tag or branch of it; None for its newest.

    Raises:
        InvalidRequest: If there is no such folder, or it has a stamp; its ``pyproject.toml`` is wrong; or the template
            cannot be had or rendered. Nothing was changed then.
    """
    require_cookiecutter()
    _require_adoptable(project)
    source = _place(template) if template else own_source()
    commit = room.commit(source, to)
    checkout = room.at(source, commit)
    into = room.folder / "adoption"
    render = finish_rendering(start_rendering(checkout, answers_for(project), into, source=source), into)
    ownership = Ownership.read(checkout)
    made = read_stamp(render)
    wanted = [path for path in made.hashes if ownership.is_for_any_project(path)]
    left = [path for path in made.hashes if _is_other(project, path, render)]
    before = {path for path in (*made.hashes, CONDA_FILE) if os.path.lexists(project / path)}
    missing = [path for path in wanted if path not in before and path not in left]
    changed = add_bits(project, render)
    for path in missing:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(render / path, project / path)
    if has_list(project):
        changed += [path for path in sync(project) if path not in changed]
    taken = [path for path in wanted if path not in left]
    stamp = replace(
        made,
        template=source,
        commit=commit,
        files={path: made.files[path] for path in taken if path in made.files},
        shared={path: made.shared[path] for path in taken if path in made.shared},
        left=tuple(left),
    )
    write_stamp(project, stamp)
    return Adoption(
        stamp=stamp,
        added=(*missing, *(path for path in changed if path not in before)),
        extended=tuple(path for path in changed if path in before),
        left=tuple(path for path in left if path not in changed),
        next_steps=tuple(_next_steps(project, render, left)),
    )


def _require_adoptable(project: Path) -> None:
    if not project.is_dir():
        raise InvalidRequest(f"There is no folder {project}.", hint="helpers template adopt FOLDER")
    if os.path.lexists(project / STAMP):
        raise InvalidRequest(f"{project} has a stamp of its template.", hint="helpers template status, or update")
    if (project / "pyproject.toml").exists():
        read_dependencies(project)


def _place(template: str) -> str:
    """Return a folder as a whole path, since git is asked elsewhere; a URL as it is."""
    folder = Path(template).expanduser()
    return str(folder.resolve()) if folder.is_dir() else template


def _is_other(project: Path, path: str, render: Path) -> bool:
    """Say whether something else is where the template has a file: content, a folder, a link, a file for a folder."""
    ours = project / path
    if any(os.path.lexists(folder) and not folder.is_dir() for folder in ours.parents if folder != project):
        return True
    return os.path.lexists(ours) and not (ours.is_file() and ours.read_bytes() == (render / path).read_bytes())


def _next_steps(project: Path, render: Path, left: list[str]) -> Iterator[str]:
    if not has_list(project):
        yield f'move the dependencies to [project] in pyproject.toml, with "{requirement_of(render)}"'
        yield "helpers env sync (environment.yml and container.def from that list)"
    elif CONDA_FILE in own_files(project):
        yield f"helpers env adopt {CONDA_FILE} (takes its packages into pyproject.toml; yours is kept beside it)"
    elif (project / "requirements.txt").exists():
        yield "helpers env adopt requirements.txt (takes its packages into pyproject.toml)"
    if left:
        yield "helpers template status --diff (how files that were left differ from the template's)"
    yield "git diff, then commit"


def own_source() -> str:
    """Return the repository that this library was installed from, which is the template's.

    Raises:
        InvalidRequest: If the installation does not say (PEP 610).
    """
    try:
        text = importlib.metadata.distribution(_DISTRIBUTION).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    url: str = json.loads(text)["url"] if text else ""
    if not url:
        raise InvalidRequest(
            "This installation of the library does not say where it came from.",
            hint="helpers template adopt --template URL",
        )
    return re.sub(r"^file://(localhost)?(?=/)", "", url)
