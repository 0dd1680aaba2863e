"""A project in git with two raw files, declared the documented way."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from helpers.cli.main import app
from helpers.project.raw_data.adding import add
from helpers.runtime.raw_data.area import raw_area

Helpers = Callable[..., Result]
Run = Callable[..., subprocess.CompletedProcess[str]]
LONG_AGO_S = 1_000_000_000
HOOK = f'#!/bin/sh\nexec "{sys.executable}" -m helpers.cli data guard\n'


@pytest.fixture
def git(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs git in a folder, with an identity and nobody's settings."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in [name for name in os.environ if name.startswith(("GIT_DIR", "GIT_INDEX", "GIT_WORK"))]:
        monkeypatch.delenv(name)

    def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Helpers:
    """Return a function that runs ``helpers data`` in a folder, in this process."""

    def run(folder: Path, *words: str | Path) -> Result:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PWD", str(folder))
        return CliRunner().invoke(app, ["data", *map(str, words)])

    return run


@pytest.fixture
def empty(tmp_path: Path, git: Run) -> Path:
    """A project without raw data, whose commits are guarded."""
    folder = tmp_path / "project"
    (folder / "data" / "raw").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.helpers]\n")
    git(folder, "init", "--quiet")
    install_hook(folder)
    return folder


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two raw files, declared and committed; only to be copied."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "pyproject.toml").write_text("[tool.helpers]\n")
    for name, text in (("a.csv", "1,2\n"), ("scans/b.csv", "3,4\n")):
        write_raw(folder, name, text)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True, capture_output=True)
    add(raw_area(folder), [folder / "data" / "raw"])
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (("add", "--all"), (*identity, "commit", "--quiet", "--message", "Raw data")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    install_hook(folder)
    return folder


@pytest.fixture
def project(tmp_path: Path, original: Path, git: Run) -> Path:
    """The same, to be changed."""
    assert git
    return shutil.copytree(original, tmp_path / "project", symlinks=True)


def install_hook(folder: Path) -> None:
    """Have each commit guarded, as pre-commit does with a system hook."""
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o755)


def write_raw(folder: Path, name: str, text: str) -> Path:
    """Write a raw file that looks old; write bits do not stop whoever is root, or gives them back first."""
    file = folder / "data" / "raw" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    make_writable(file.parent)
    if file.exists():
        file.chmod(0o644)
    file.write_text(text)
    os.utime(file, (LONG_AGO_S + len(text), LONG_AGO_S + len(text)))
    return file


def make_writable(folder: Path) -> None:
    """Give a folder its write bit, as somebody does whom nothing stops."""
    folder.chmod(0o755)
