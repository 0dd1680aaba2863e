"""A repository that exists is brought to the standard: nothing of its own is overwritten, and what differs is said."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.template.conftest import Home

pytestmark = pytest.mark.template

PAPER = {
    "environment.yml": "name: paper\nchannels: [pytorch]\ndependencies: [python=3.10, numpy, ffmpeg]\n",
    "requirements.txt": "tqdm\n",
    "setup.py": "from setuptools import setup\nsetup(name='paper', install_requires=['tqdm'])\n",
    "src/Net/__init__.py": "",
    "notebooks/a.ipynb": '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n',
    ".pre-commit-config.yaml": "repos: []\n",
    "Makefile": "all:\n\ttrue\n",
    ".gitignore": "*.pyc",
    ".vscode": "a file, of all things\n",
}


@dataclass(frozen=True)
class Adopted:
    """A project after the command.

    Args:
        project: Its folder.
        done: The command, with what it said.
        home: Where its user lives.
    """

    project: Path
    done: subprocess.CompletedProcess[str]
    home: Home

    def helpers(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command in the project."""
        return run(self.project, self.home, *words)


def run(project: Path, home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "helpers.cli", *words]
    return subprocess.run(command, cwd=project, env=home.environment(), capture_output=True, text=True, check=False)


def adopt(project: Path, template: Path, home: Home, files: dict[str, str]) -> Adopted:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return Adopted(project, run(project, home, "template", "adopt", "--template", str(template)), home)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory, template: Path, home: Home) -> Adopted:
    """A repository with files of its own wherever the template has some; only to be read."""
    return adopt(tmp_path_factory.mktemp("paper"), template, home, PAPER)


def test_nothing_of_its_own_is_overwritten(paper: Adopted) -> None:
    """Byte for byte, but for lines at the end of one file."""
    assert paper.done.returncode == 0, paper.done.stderr
    for name, text in PAPER.items():
        now = (paper.project / name).read_text()
        assert now == text or (name == ".gitignore" and now.startswith(f"{text}\n\n# From the template of the lab\n"))


def test_what_was_done_and_what_was_left_is_said(paper: Adopted) -> None:
    said = paper.done.stdout.splitlines()
    words = {
        word: [line.partition(": ")[2] for line in said if line.startswith(word)] for word in ("added", "left", "ext")
    }
    assert words == {
        "added": [".env.example", "pyproject.toml"],
        "ext": [".gitignore"],
        "left": [
            ".pre-commit-config.yaml", ".vscode/extensions.json", ".vscode/launch.json", ".vscode/settings.json",
            ".vscode/tasks.json", "Makefile", "environment.yml",
        ],
    }  # fmt: skip


def test_a_list_in_setup_py_stays_the_only_one(paper: Adopted) -> None:
    """A [project] table beside it would take its place; until somebody moves it, nothing is made from it."""
    assert "project" not in tomllib.loads((paper.project / "pyproject.toml").read_text())
    assert "next: move the dependencies to [project] in pyproject.toml, with " in paper.done.stdout
    assert paper.helpers("env", "sync", "--check").returncode == 0
    refused = paper.helpers("env", "sync")
    assert (refused.returncode, "has no list of dependencies" in refused.stderr) == (2, True)
    assert (paper.project / "environment.yml").read_text() == PAPER["environment.yml"]


def test_how_its_files_differ_is_shown(paper: Adopted) -> None:
    """Whoever wants the template's hooks in a configuration of his own can read them there."""
    shown = paper.helpers("template", "status", "--diff")
    assert shown.returncode == 0, shown.stderr
    assert "--- .pre-commit-config.yaml of the template\n+++ .pre-commit-config.yaml of this project\n" in shown.stdout
    assert "-        entry: helpers data guard\n" in shown.stdout


def test_a_folder_of_scripts_gets_a_list_and_keeps_its_environment(tmp_path: Path, template: Path, home: Home) -> None:
    """The library is in the list; conda's file is taken in by a command of its own, and kept."""
    files = {"train.py": "", "environment.yml": PAPER["environment.yml"], "data/a.csv": ""}
    scripts = adopt(tmp_path, template, home, files)
    assert "next: helpers env adopt environment.yml" in scripts.done.stdout
    assert (tmp_path / "environment.yml").read_text() == PAPER["environment.yml"]
    document = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert document["tool"]["setuptools"] == {"packages": []}
    (library,) = document["project"]["dependencies"]
    assert library.startswith("slurm-torch-helpers @ ")
    assert scripts.helpers("env", "sync", "--check").returncode == 0
    assert scripts.helpers("env", "adopt", "environment.yml").returncode == 0
    made = (tmp_path / "environment.yml").read_text()
    assert all(text in made for text in (library, '"numpy"', '"ffmpeg"'))
    assert scripts.helpers("env", "sync", "--check").returncode == 0


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path: Path, template: Path, home: Home) -> None:
    """Home folders are linked into projects, and links outlive what they name."""
    outside, project = tmp_path / "outside", tmp_path / "project"
    project.mkdir()
    for name in (".env.example", "Makefile"):
        (project / name).symlink_to(outside / name)
    outside.mkdir()
    linked = adopt(project, template, home, {"pyproject.toml": '[project]\nname = "a"\nversion = "1"\n'})
    assert linked.done.returncode == 0, linked.done.stderr
    assert list(outside.iterdir()) == []
    assert "left as it is: .env.example\n" in linked.done.stdout


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"pyproject.toml": "[project\n"}, "is no valid TOML"),
        ({"pyproject.toml": '[project]\nname = "a"\ndependencies = ["a b"]\n'}, "'a b' is no requirement"),
        ({"pyproject.toml": "tool = {other = 1}\n"}, "cannot add tables at its end"),
        ({".template.json": "{}"}, "has a stamp"),
    ],
)
def test_what_cannot_be_adopted_is_left_as_it_was(
    files: dict[str, str], said: str, tmp_path: Path, template: Path, home: Home
) -> None:
    refused = adopt(tmp_path, template, home, files)
    assert (refused.done.returncode, said in refused.done.stderr) == (2, True), refused.done.stderr
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == files
