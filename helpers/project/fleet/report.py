"""Look at projects as they lie on disk: no network, no scheduler, nothing is run."""

from __future__ import annotations

import os
import platform
import re
import time
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from helpers.config import runs_folder
from helpers.config.files import project_table
from helpers.errors import HelpersError, InvalidRequest
from helpers.project.template.stamp import CRUFT, STAMP, Drift, Stamp, drift_of, read_stamp
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DISTRIBUTION = "slurm-torch-helpers"
# What a file that is not as it should be gives: unreadable, no such syntax, another kind of value than expected.
_SENSELESS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class ProjectReport:
    """One project on one host.

    Args:
        name: Of its distribution, else of its folder.
        host: Where it was looked at.
        path: Its folder there.
        template: Version and commit of the template; empty where there is no stamp.
        commit: The template's commit, in full.
        changed: Files of the template that were changed.
        deleted: Files of the template that are gone.
        helpers: Version that is installed in the project's ``.venv``, else what it requires.
        raw_data: How ``data/raw`` stands.
        last_run: Name and state of the newest run.
        last_run_at: When it was submitted, by its id (UTC, ``20261130-025318``).
        checks: Whether the checks before a commit are there, and installed.
        looked_at: When, in seconds since the epoch.
        problem: What could not be read.
    """

    name: str
    host: str
    path: str
    template: str = ""
    commit: str | None = None
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    helpers: str = ""
    raw_data: str = ""
    last_run: str = ""
    last_run_at: str = ""
    checks: str = ""
    looked_at: float = 0.0
    problem: str = ""

    @property
    def drift(self) -> str:
        """Drift in a few words."""
        if not self.template:
            return "no stamp"
        counts = (("changed", self.changed), ("deleted", self.deleted))
        return ", ".join(f"{len(paths)} {word}" for word, paths in counts if paths) or "none"


def find_projects(paths: Iterable[Path]) -> list[Path]:
    """Return the projects that are named, and those directly in the folders that are; each once, whatever links to it.

    A folder that cannot be read counts: its report says so.

    Raises:
        InvalidRequest: If a path has none.
    """
    found: list[Path] = []
    for path in paths:
        here = [path] if is_project(path) else sorted(folder for folder in _folders(path) if is_project(folder))
        if not here:
            raise InvalidRequest(
                f"There is no project in {path}: no folder with {STAMP}, or with [tool.helpers] in pyproject.toml.",
                hint="helpers template adopt makes one of a repository that exists",
            )
        found += here
    once: dict[Path, Path] = {}
    for folder in sorted(found, key=Path.is_symlink):  # a folder before what links to it
        once.setdefault(folder.resolve(), folder.absolute())
    return list(once.values())


def _folders(path: Path) -> list[Path]:
    try:
        return [folder for folder in path.iterdir() if folder.is_dir()]
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from error


def is_project(folder: Path) -> bool:
    """Say whether a folder has a stamp, or settings of this library; or cannot be read, so that nobody knows."""
    try:
        if (folder / STAMP).exists() or (folder / CRUFT).exists():
            return True
        return project_table(folder / "pyproject.toml") is not None
    except InvalidRequest:  # it has one that cannot be read; the table says so
        return (folder / "pyproject.toml").exists()
    except PermissionError:
        return True


def look_at(project: Path) -> ProjectReport:
    """Return how one project stands; what cannot be read is said in it, and stops nothing."""
    try:
        os.scandir(project).close()
    except OSError as error:
        where = ProjectReport(name=project.name, host=platform.node(), path=str(project), looked_at=time.time())
        return replace(where, problem=f"cannot be read: {error.strerror}")
    nothing: dict[str, Any] = {}
    no_stamp: tuple[Stamp | None, Drift] = (None, Drift(changed=(), deleted=(), shared=()))
    problems: list[str] = []
    known = _asked("pyproject.toml", problems, lambda: _project_table(project), nothing)
    stamp, drift = _asked("stamp", problems, lambda: _template(project), no_stamp)
    last_run, last_run_at = _asked("runs", problems, lambda: _last_run(project), ("?", ""))
    return ProjectReport(
        name=str(known.get("name") or project.name),
        host=platform.node(),
        path=str(project),
        template=stamp.name if stamp else "",
        commit=stamp.commit if stamp else None,
        changed=drift.changed,
        deleted=drift.deleted,
        helpers=_asked("dependencies", problems, lambda: _library(project, known), "?"),
        raw_data=_asked("raw data", problems, lambda: _raw_data(project), "?"),
        last_run=last_run,
        last_run_at=last_run_at,
        checks=_asked("checks", problems, lambda: _checks(project), "?"),
        looked_at=time.time(),
        problem="; ".join(problems),
    )


def _asked(what: str, problems: list[str], read: Callable[[], _T], otherwise: _T) -> _T:
    """Return what ``read`` returns; where a file says nothing sensible, note that, and return ``otherwise``."""
    try:
        return read()
    except HelpersError as error:
        problems.append(error.message)
    except _SENSELESS as error:
        problems.append(f"{what}: {error}")
    return otherwise


def _project_table(project: Path) -> dict[str, Any]:
    try:
        text = (project / "pyproject.toml").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    table = tomllib.loads(text).get("project", {})
    if not isinstance(table, dict):
        raise TypeError(f"project is a table, not {table!r}")
    return table


def _template(project: Path) -> tuple[Stamp | None, Drift]:
    if not (project / STAMP).exists() and not (project / CRUFT).exists():
        return None, Drift(changed=(), deleted=(), shared=())
    stamp = read_stamp(project)
    return stamp, drift_of(project, stamp)


def _library(project: Path, known: dict[str, Any]) -> str:
    """Return the library's version in the project's own environment, else the commit that it asks for."""
    pattern = f"lib/python3*/site-packages/{_DISTRIBUTION.replace('-', '_')}-*.dist-info"
    for folder in (project / ".venv").glob(pattern):
        return folder.name.removesuffix(".dist-info").rpartition("-")[2]
    required = [text for text in known.get("dependencies", ()) if str(text).startswith(_DISTRIBUTION)]
    if not required:
        return ""
    ref = re.search(r"@([0-9a-f]{7,40}|v?[0-9][\w.]*)$", required[0])
    return f"asks for {ref[1][:8] if ref else required[0].partition('@')[2].strip() or required[0]}"


def _raw_data(project: Path) -> str:
    from helpers.project.fleet.raw_data import raw_data_state

    return raw_data_state(project)


def _last_run(project: Path) -> tuple[str, str]:
    newest = max(runs_folder(project).glob("*/*/run.json"), key=lambda file: file.parent.name, default=None)
    if newest is None:
        return "", ""
    status = read_status(RunFolder(newest.parent))
    state = str(status.state) if status else "PENDING"
    return f"{newest.parent.parent.name} {state}", newest.parent.name.rpartition("-")[0]


def _checks(project: Path) -> str:
    if not (project / ".pre-commit-config.yaml").exists():
        return "none"
    folder = next((folder for folder in (project, *project.parents) if (folder / ".git").exists()), None)
    if folder is None:
        return "not under git"
    return "installed" if (_git_folder(folder) / "hooks" / "pre-commit").exists() else "not installed"


def _git_folder(project: Path) -> Path:
    """Return where a repository's hooks are: of a linked work tree, in the one that it is linked to."""
    folder = project / ".git"
    if folder.is_dir():
        return folder
    folder = project / folder.read_text(encoding="utf-8").removeprefix("gitdir: ").strip()
    common = folder / "commondir"
    return folder / common.read_text(encoding="utf-8").strip() if common.exists() else folder
