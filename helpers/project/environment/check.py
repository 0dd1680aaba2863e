"""Find what breaks environments, each with its cure: two owners of a package, strangers on a path, login files."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.project.environment.place import installed_by_pip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.project.environment.place import Place

_SAME_RUN_S = 60.0  # `conda env create` runs pip within its own transaction
_MOST_NAMED = 8
_LOGIN_FILES = (".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc")
_ACTIVATES = re.compile(
    r"^\s*(?:export\s+(?:PYTHONPATH|PYTHONHOME|LD_LIBRARY_PATH)\b|conda\s+activate\b|mamba\s+activate\b|module\s+load\b"
    r"|(?:source|\.)\s+\S*/activate\b)"
)
_CONDA_BLOCK = ">>> conda initialize >>>"
_NO_AUTOMATIC = re.compile(r"^\s*auto_activate(?:_base)?\s*:\s*(?:false|no|off)\b", re.MULTILINE | re.IGNORECASE)
_LIBRARIES = ("libcudart", "libcudnn", "libcublas", "libnccl", "libstdc++", "libcuda.so", "libpython")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Args:
        rule: Its name, for programs.
        text: What was found, in a sentence.
        cure: A line that can be pasted.
    """

    rule: str
    text: str
    cure: str


def check_environment(place: Place, *, cuda: str = "", project: Path | None = None) -> list[Finding]:
    """Return what is wrong with an environment and its surroundings.

    Args:
        place: The environment.
        cuda: The build of torch that the project asks for; empty for any.
        project: The project's folder, whose own files may hide this library.
    """
    return [
        *check_packages(place, cuda=cuda),
        *_user_packages(place),
        *_python_path(place, project),
        *_other_interpreter(place),
        *_library_path(place),
        *_login_files(place),
        *_hidden_helpers(place, project),
    ]


def check_packages(place: Place, *, cuda: str = "") -> list[Finding]:
    """Return what is wrong with what is installed in an environment, whoever uses it; arguments as above."""
    return [
        *_two_owners(place),
        *_conda_after_pip(place),
        *_foreign_helpers(place),
        *_torch_build(place, cuda),
    ]


def _two_owners(place: Place) -> Iterator[Finding]:
    both = sorted(set(place.by_conda) & set(place.by_pip))
    if both:
        yield Finding(
            rule="two-owners",
            text=f"conda and pip have both installed {_named(both)} in {place.prefix}: the files are a mixture",
            cure=f"{_anew(place)}   (with bounds in pyproject.toml that suit pip's packages, too)",
        )


def _conda_after_pip(place: Place) -> Iterator[Finding]:
    last = max(place.conda_times, default=0.0)
    earlier = sorted(name for name, when in place.by_pip.items() if when < last - _SAME_RUN_S)
    if earlier:
        yield Finding(
            rule="conda-after-pip",
            text=f"conda has changed {place.prefix} after pip installed {_named(earlier)}, of which it knows nothing",
            cure=f"{_anew(place)}   (conda first, then pip, always)",
        )


def _anew(place: Place) -> str:
    return f"rm -r {place.prefix} && conda env create --prefix {place.prefix} --file environment.yml"


def _user_packages(place: Place) -> Iterator[Finding]:
    if place.user_packages is None:
        return
    names = sorted({*installed_by_pip(place.user_packages), *_hidden(place.user_packages, place)})
    if names:
        yield Finding(
            rule="user-packages",
            text=f"{place.user_packages} is imported from, too: {_named(names)}",
            cure='export PYTHONNOUSERSITE=1   (in a job: setup = ["export PYTHONNOUSERSITE=1"])',
        )


def _python_path(place: Place, project: Path | None) -> Iterator[Finding]:
    for entry in filter(None, place.variables.get("PYTHONPATH", "").split(":")):
        folder = Path(entry)
        if _is_inside(folder, place.prefix) or (project is not None and _is_inside(folder, project)):
            continue
        names = sorted({*installed_by_pip(folder), *_hidden(folder, place)})
        if names:
            yield Finding(
                rule="python-path",
                text=f"PYTHONPATH names {entry}, whose {_named(names)} goes before the environment's own",
                cure="unset PYTHONPATH   (what is to be imported, install: pip install --editable FOLDER)",
            )


def _hidden(folder: Path, place: Place) -> set[str]:
    """Return the modules of a folder that the environment has, too."""
    return _modules(folder) & _modules(place.packages)


def _modules(folder: Path) -> set[str]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return set()
    return {
        entry.stem
        for entry in entries
        if entry.suffix == ".py" or (entry.is_dir() and (entry / "__init__.py").exists())
    }


def _other_interpreter(place: Place) -> Iterator[Finding]:
    active = place.variables.get("VIRTUAL_ENV") or place.variables.get("CONDA_PREFIX")
    if active and not _same(Path(active), place.prefix):
        yield Finding(
            rule="other-interpreter",
            text=f"{active} is active, and this Python is that of {place.prefix}",
            cure=f"{active}/bin/python -m helpers.cli env check   (or: pip install the project there)",
        )
    first = shutil.which("python3", path=place.variables.get("PATH", ""))
    if active and first is not None and not _is_inside(Path(first), Path(active)):
        yield Finding(
            rule="other-python-first",
            text=f"python3 on PATH is {first}, not that of {active}, which is active",
            cure=f"export PATH={active}/bin:$PATH",
        )


def _library_path(place: Place) -> Iterator[Finding]:
    for entry in place.variables.get("LD_LIBRARY_PATH", "").split(":"):
        if not entry or _is_inside(Path(entry), place.prefix):
            continue
        found = sorted({name for name in _LIBRARIES if any(Path(entry).glob(f"{name}*"))})
        if found:
            yield Finding(
                rule="library-path",
                text=f"LD_LIBRARY_PATH names {entry}, whose {', '.join(found)} goes before the environment's own",
                cure="unset LD_LIBRARY_PATH   (torch's wheels bring their own CUDA; load no cuda module for them)",
            )


def _login_files(place: Place) -> Iterator[Finding]:
    for name in _LOGIN_FILES:
        file = place.home / name
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        if any(_CONDA_BLOCK in line for line in lines) and not _is_manual(place):
            yield Finding(
                rule="login-file",
                text=f"{file} activates conda's base in every shell, a job's too",
                cure="conda config --set auto_activate_base false",
            )
        for number, line in enumerate(lines, 1):
            if _ACTIVATES.match(line):
                yield Finding(
                    rule="login-file",
                    text=f"{file}:{number} changes every shell: {line.strip()}",
                    cure="take the line out; what a job needs, say in the project: modules, setup, environment",
                )


def _is_manual(place: Place) -> bool:
    try:
        text = (place.home / ".condarc").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return _NO_AUTOMATIC.search(text) is not None


def _foreign_helpers(place: Place) -> Iterator[Finding]:
    if any(place.packages.glob("helpers-*.dist-info")):
        yield Finding(
            rule="foreign-helpers",
            text=f"the distribution named helpers is installed in {place.packages}; ours is slurm-torch-helpers",
            cure="pip uninstall --yes helpers && pip install --force-reinstall --no-deps --editable .",
        )


def _hidden_helpers(place: Place, project: Path | None) -> Iterator[Finding]:
    own = Path(__file__).parents[2]
    folders = [Path(entry) for entry in place.path if entry]
    folders += [project, project / "src", project / "tests"] if project is not None else []
    for folder in dict.fromkeys(folders):
        for hiding in (folder / "helpers.py", folder / "helpers" / "__init__.py"):
            if hiding.is_file() and not _same(hiding.parent, own):
                yield Finding(
                    rule="hidden-helpers",
                    text=f"{hiding} is imported as helpers in place of this library, or by chance",
                    cure=f"git mv {hiding if hiding.name != '__init__.py' else hiding.parent} another-name",
                )


def _torch_build(place: Place, cuda: str) -> Iterator[Finding]:
    for folder in sorted(place.packages.glob("torch-*.dist-info")):
        version = folder.name.removeprefix("torch-").removesuffix(".dist-info")
        build = version.partition("+")[2]
        if cuda and build != cuda:
            yield Finding(
                rule="torch-build",
                text=f"torch {version} is installed, and the project asks for the build {cuda}",
                cure="pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/" + cuda,
            )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _is_inside(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder) or path.parent.resolve().is_relative_to(folder.resolve())
