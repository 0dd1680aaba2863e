"""Settle what a job's processes run in: which Python, of which environment, in which container."""

from __future__ import annotations

import json
import os
import platform
import shlex
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from helpers.errors import InvalidRequest
from helpers.runtime.environment import without_scheduler_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from helpers.submission.containers.container import Container
    from helpers.submission.resources.settings import CompleteSettings

_TIMEOUT_S = 60
_PROBE = """import json, platform
import helpers.runtime.attempt.batch
print(json.dumps(platform.python_version()))"""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a job's processes run in.

    Args:
        python: The interpreter of the batch script, and of the ranks where there is no container.
        version: Its version.
        lines: Shell lines that enter its environment; none for the caller's own, which the job inherits.
        container: What the ranks run in.
        mpi: How MPI's ranks are started; empty where they are none.
    """

    python: str = sys.executable
    version: str = platform.python_version()
    lines: Sequence[str] = ()
    container: Container | None = None
    mpi: str = ""

    @property
    def own_packages(self) -> bool:
        """Whether the ranks' Python has packages of its own, in place of the caller's."""
        return self.container is not None or self.python != sys.executable

    def rank_words(self, module: str) -> list[str]:
        """Return the words that start a rank; a program's own container is entered by the rank itself."""
        container = self.container
        if container is None or (container.inside and module.endswith(".command")):
            return [self.python, "-u", "-P", "-m", module]
        return [*container.start, "-u", "-P", "-m", module]

    @property
    def srun_options(self) -> list[str]:
        """What ``srun`` is told of the container."""
        return [] if self.container is None else self.container.srun_options

    def described(self, *, is_command: bool) -> dict[str, Any]:
        """Return what a description tells of them."""
        return {
            "python": self.python,
            "versions": {"python": self.version},
            "sys_path": self.search_path(),
            "own_packages": self.own_packages,
            "container": self.container.image if self.container else "",
            "inside": self.container.inside if self.container else [],
            "rank_words": self.rank_words(rank_module(is_command=is_command)),
            "mpi": self.mpi,
        }

    def search_path(self) -> list[str]:
        """Return the caller's search path; without the packages of the caller's Python, where the ranks' is another."""
        path = [entry if entry.startswith("/") else str(Path(entry).absolute()) for entry in sys.path]
        return [*_editable_folders(), *_without_packages(path)] if self.own_packages else path


def rank_module(*, is_command: bool) -> str:
    """Return the module that a rank runs: the one for programs, or the one for functions."""
    return f"helpers.runtime.rank.{'command' if is_command else 'rank'}"


class JobPlace(TypedDict):
    """Where a job runs, as keywords of what depends on it.

    Args:
        directory: The folder that is worked in.
        runs: Where the runs are kept.
        gpus: How many the job has.
        cluster: ``"slurm"``, ``"local"`` or ``"inline"``.
    """

    directory: Path
    runs: Path
    gpus: int
    cluster: str


def settle_surroundings(complete: CompleteSettings, **place: Unpack[JobPlace]) -> Surroundings:
    """Return what a call's ranks run in.

    Args:
        complete: The call's keywords, with the settings.
        **place: Where the job runs.

    Raises:
        InvalidRequest: If the environment or the container is none.
    """
    cluster = place["cluster"]
    asked = complete.values.get("environment")
    surroundings = Surroundings() if asked is None or cluster == "inline" else named_environment(asked)
    if complete.values.get("launcher") is not None:
        from helpers.submission.clusters.launcher import read_launcher

        surroundings = replace(surroundings, mpi=read_launcher(complete, cluster=cluster))
    if complete.values.get("container") is None:
        return surroundings
    from helpers.submission.containers.choice import read_container

    return replace(surroundings, container=read_container(complete, **place))


def module_lines(asked: Any) -> list[str]:
    """Return the shell lines that load modules."""
    names = [asked] if isinstance(asked, str) else list(asked or ())
    return [f"module load {shlex.quote(name)}" for name in names]


def named_environment(asked: Any) -> Surroundings:
    """Return the surroundings that a setting names: a folder with ``bin/python``, or a conda environment's name.

    Raises:
        InvalidRequest: If there is no such environment, or it has not got this library.
    """
    folder = _find(str(asked))
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise InvalidRequest(
            f"environment: {folder} is none: it has no bin/python.", hint='environment = "/path/to/.venv"'
        )
    return Surroundings(python=str(python), version=_ask_version(python), lines=_entering(folder))


def _ask_version(python: Path) -> str:
    from helpers.submission.clusters.script import with_library

    environment = with_library(without_scheduler_variables(os.environ))
    command = [str(python), "-P", "-c", _PROBE]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        return str(json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidRequest(f"environment: {python} does not run: {error}.") from error
    except ValueError:
        words = done.stderr.strip().splitlines()[-1:]
        raise InvalidRequest(
            f"environment: {python} has not got this library: {' '.join(words)}",
            hint=f"{shlex.quote(str(python))} -m pip install -e .   (in the project's folder)",
        ) from None


def _entering(folder: Path) -> list[str]:
    """Return the lines that do what ``activate`` would, without its shell functions."""
    place = shlex.quote(str(folder))
    if not (folder / "conda-meta").is_dir():
        return [f'export VIRTUAL_ENV={place} PATH={place}/bin:"$PATH"; unset PYTHONHOME']
    return [
        f'export CONDA_PREFIX={place} CONDA_DEFAULT_ENV={shlex.quote(folder.name)} PATH={place}/bin:"$PATH"',
        f'for _line in {place}/etc/conda/activate.d/*.sh; do [ ! -r "$_line" ] || . "$_line"; done; unset PYTHONHOME',
    ]


def _find(asked: str) -> Path:
    from helpers.config import find_project, working_directory
    from helpers.config.folders import fill_in

    if "/" in asked or asked.startswith((".", "~", "$")):
        here = working_directory()
        return ((find_project(here) or here) / fill_in(asked, "environment")).absolute()
    known = conda_environments()
    if asked not in known:
        names = ", ".join(sorted(known)) or "none was found"
        raise InvalidRequest(
            f"environment: there is no conda environment {asked!r}; known: {names}.",
            hint='its folder: environment = "/path/to/envs/NAME"',
        )
    return known[asked]


def conda_environments(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Return the conda environments of this user by name, by what conda writes down; conda is not asked."""
    folders = [Path(text) for text in environment.get("CONDA_ENVS_PATH", "").split(os.pathsep) if text]
    roots = [environment.get("MAMBA_ROOT_PREFIX"), environment.get("CONDA_ROOT")]
    if environment.get("CONDA_EXE"):
        roots.append(str(Path(environment["CONDA_EXE"]).parent.parent))
    folders += [Path(root) / "envs" for root in roots if root]
    home = Path(environment.get("HOME", "~")).expanduser()
    found = {entry.name: entry for folder in folders for entry in _environments_in(folder)}
    try:
        lines = (home / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.strip() and (Path(line) / "conda-meta").is_dir():
            found.setdefault(Path(line).name, Path(line))
    return found


def _environments_in(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if (entry / "conda-meta").is_dir())
    except OSError:
        return []


def _without_packages(path: list[str]) -> list[str]:
    """Leave out what belongs to this interpreter: its standard library and the packages installed in it."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    own = {sysconfig.get_path(name) for name in names} | {*site.getsitepackages(), site.getusersitepackages()}
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return [
        entry
        for entry in path
        if Path(entry).name != archive and not any(Path(entry).is_relative_to(folder) for folder in own)
    ]


def _editable_folders() -> list[str]:
    """Return where setuptools' finders of editable installs lead to: the ranks have no such finder."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__") and name.endswith("_finder"):
            mapping: dict[str, str] = getattr(module, "MAPPING", {})
            found += [str(Path(place).parent) for package, place in mapping.items() if package != "helpers"]
    return list(dict.fromkeys(found))
