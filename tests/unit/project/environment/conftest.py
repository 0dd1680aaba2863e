"""A project with one list of dependencies, and environments as their files show them; conda itself is not needed."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.project.environment.place import Place

PYPROJECT = """[project]
name = "digits"
requires-python = ">=3.11"
dependencies = [
    "matplotlib>=3.8",
    "numpy >= 1.26, <3", # the newest that was tried
    "slurm-torch-helpers @ git+https://example.org/helpers@0123",
    "tables",
    "torch>=2.6",
    "dask[complete]; sys_platform == 'linux'"
]

[tool.helpers.environment]
conda_only = ["ffmpeg>=6"]
"""

MakePlace = Callable[..., Place]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    return folder


@pytest.fixture
def make_place(tmp_path: Path) -> MakePlace:
    """Return a function that makes an environment: what conda has installed and when, and what pip has."""

    def make(
        *,
        conda: dict[str, str] | None = None,
        conda_at: float | None = None,
        pip: dict[str, float] | None = None,
        **more: Any,
    ) -> Place:
        prefix = tmp_path / "env"
        packages = prefix / "lib" / "python3.11" / "site-packages"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python3").touch(mode=0o755)
        packages.mkdir(parents=True)
        for name, distribution in (conda or {}).items():
            (prefix / "conda-meta").mkdir(exist_ok=True)
            add_distribution(packages, distribution, by="conda")
            files = [f"lib/python3.11/site-packages/{distribution}-1.0.dist-info/METADATA"]
            (prefix / "conda-meta" / f"{name}-1.0-0.json").write_text(json.dumps({"name": name, "files": files}))
        if conda_at is not None:
            (prefix / "conda-meta" / "history").write_text(f"==> {_local(conda_at)} <==\n# cmd: conda install numpy\n")
        for name, when in (pip or {}).items():
            add_distribution(packages, name, by="pip", when=when)
        home = tmp_path / "home"
        home.mkdir()
        given: dict[str, Any] = {"variables": {"PATH": str(prefix / "bin")}, "home": home, **more}
        return Place(prefix=prefix, packages=packages, executable=prefix / "bin" / "python3", **given)

    return make


def add_distribution(packages: Path, name: str, *, by: str, when: float | None = None) -> None:
    """Install one, as its installer leaves it."""
    file = packages / f"{name}-1.0.dist-info" / "INSTALLER"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{by}\n")
    if when is not None:
        os.utime(file, (when, when))


def _local(when: float) -> str:
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
