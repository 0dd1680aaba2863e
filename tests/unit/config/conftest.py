"""Give each test files of settings of its own, on a machine that has none."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.config import cluster_name, files, layers

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("HELPERS_", "SLURM_"))]:
        monkeypatch.delenv(name)
    site = tmp_path / "etc" / "slurm-torch-helpers.toml"
    monkeypatch.setattr(files, "SITE_FILE", site)
    monkeypatch.setattr(layers, "SITE_FILE", site)
    monkeypatch.setattr(cluster_name, "USUAL_CONFIGURATIONS", ())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/nowhere")


def _writer(file: Path, before: str = "") -> Write:
    def write(text: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(before + text, encoding="utf-8")
        return file

    return write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def write_project(project: Path) -> Write:
    """Write the project's file; its first line is that of the text."""
    return _writer(project / "pyproject.toml")


@pytest.fixture
def write_user(tmp_path: Path) -> Write:
    """Write the user's file."""
    return _writer(tmp_path / "home" / "slurm-torch-helpers" / "config.toml")


@pytest.fixture
def write_lab(tmp_path: Path) -> Write:
    """Write a file for others to extend."""
    return _writer(tmp_path / "lab.toml")


@pytest.fixture
def write_site(tmp_path: Path) -> Write:
    """Write the site's file."""
    return _writer(tmp_path / "etc" / "slurm-torch-helpers.toml")


@pytest.fixture
def on_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make this machine one of a cluster of that name."""

    def join(name: str) -> None:
        conf = tmp_path / "slurm.conf"
        conf.write_text(f"# ClusterName=old\nClusterName={name}\nSlurmctldHost=ctl\n")
        monkeypatch.setenv("SLURM_CONF", str(conf))

    return join
