"""Bake the template as a user does: from its folder, with the command, in a home of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE_FILES = (
    ".gitignore",
    "cookiecutter.json",
    "hooks",
    "template_extension.py",
    "{{cookiecutter.project_slug}}",
)
IDENTITY = "[user]\nname = Ada Lovelace\nemail = ada@example.org\n"


@dataclass(frozen=True, kw_only=True)
class Bake:
    """What one run of cookiecutter left behind.

    Args:
        code: Its exit code.
        output: What it printed, on both streams.
        folder: The folder in which it ran, empty before.
    """

    code: int
    output: str
    folder: Path

    @property
    def project(self) -> Path:
        """The one generated project."""
        (project,) = self.folder.iterdir()
        return project

    def files(self) -> set[str]:
        """Return the paths of all files of the project, but for git's own and the caches of its checks."""
        paths = (path.relative_to(self.project) for path in self.project.rglob("*") if path.is_file())
        return {path.as_posix() for path in paths if path.parts[0] not in {".git", ".helpers-cache", ".ruff_cache"}}


class Baker(Protocol):
    """Bakes once for each call."""

    def __call__(self, *, template: Path = ..., environment: dict[str, str] = ..., **answers: str) -> Bake:
        """Bake into an empty folder."""


@dataclass(frozen=True)
class Home:
    """A home folder with nothing in it but git's settings, so that nobody's own settings decide a test."""

    path: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of a process that lives here."""
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        scratch = self.path.with_name(f"{self.path.name}-tmp")  # cookiecutter leaves a copy of each hook there
        scratch.mkdir(exist_ok=True)
        return {
            **kept,
            "HOME": str(self.path),
            "TMPDIR": str(scratch),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GIT_CONFIG_NOSYSTEM": "1",
            "COOKIECUTTER_CONFIG": str(self.path / "cookiecutter.yaml"),
            "PRE_COMMIT_HOME": str(self.path / "pre-commit"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }

    def git(self, folder: Path, *arguments: str) -> str:
        """Run git in ``folder`` and return what it said."""
        return subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=self.environment(),
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose owner is known to git."""
    path = tmp_path_factory.mktemp("home")
    (path / ".gitconfig").write_text(IDENTITY)
    (path / "cookiecutter.yaml").write_text(f'replay_dir: "{path}/replay"\ncookiecutters_dir: "{path}/templates"\n')
    return Home(path)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, home: Home) -> Path:
    """The template as it stands in the working tree, in a repository of its own with one commit."""
    folder = tmp_path_factory.mktemp("template with space")
    for name in TEMPLATE_FILES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    home.git(folder, "init", "--quiet")
    home.git(folder, "add", "--all")
    home.git(folder, "commit", "--quiet", "--message", "The template")
    return folder


@pytest.fixture
def released(template: Path, tmp_path: Path, home: Home) -> Path:
    """A template that a test may change."""
    folder = tmp_path / "template"
    home.git(tmp_path, "clone", "--quiet", str(template), str(folder))
    home.git(folder, "remote", "remove", "origin")
    return folder


@pytest.fixture(scope="session")
def bake(tmp_path_factory: pytest.TempPathFactory, home: Home, template: Path) -> Baker:
    """Bakes the template with the answers given, the rest as proposed."""
    default_template = template

    def run(*, template: Path = default_template, environment: dict[str, str] | None = None, **answers: str) -> Bake:
        folder = tmp_path_factory.mktemp("baked")
        done = subprocess.run(
            [
                Path(sys.executable).with_name("cookiecutter"),
                "--no-input",
                template,
                *(f"{name}={value}" for name, value in answers.items()),
            ],
            cwd=folder,
            env=home.environment() if environment is None else environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Bake(code=done.returncode, output=done.stdout, folder=folder)

    return run


@pytest.fixture(scope="session")
def default_bake(bake: Baker) -> Bake:
    """The project that all proposed answers give; only to be read."""
    return bake()
