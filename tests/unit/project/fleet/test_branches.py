"""What stands in the way of a branch is told for each project, and hides no other."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from helpers.project.fleet import branches
from helpers.project.fleet.branches import update_on_branch
from helpers.project.template.checkout import Checkouts
from helpers.project.template.stamp import STAMP

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
NOBODY = 65534


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def room(tmp_path: Path) -> Checkouts:
    """Room for clones."""
    folder = tmp_path / "room"
    folder.mkdir()
    return Checkouts(folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the stamp of a template that is there, and not under git yet."""
    template, project = tmp_path / "template", tmp_path / "project"
    for folder in (template, project):
        folder.mkdir()
    git(template, "init")
    git(template, "commit", "--allow-empty", "--message", "x")
    stamp = {"template": str(template), "commit": None, "context": {"cookiecutter": {}}}
    (project / STAMP).write_text(json.dumps(stamp))
    return project


def test_a_project_that_is_not_under_git_is_told(project: Path, room: Checkouts) -> None:
    done = update_on_branch(project, room)
    assert (done.outcome, done.is_done) == (f"{project} is not the root of a git repository.", False)


def test_a_project_within_another_repository_is_told(project: Path, room: Checkouts) -> None:
    """A branch would be the whole repository's."""
    git(project.parent, "init")
    assert update_on_branch(project, room).outcome == f"{project} is not the root of a git repository."


def test_a_project_without_a_commit_is_told(project: Path, room: Checkouts) -> None:
    git(project, "init")
    assert update_on_branch(project, room).outcome == f"{project} has no commit yet."


def test_a_stamp_that_cannot_be_read_is_told(project: Path, room: Checkouts) -> None:
    (project / STAMP).unlink()
    (project / STAMP).mkdir()
    assert "cannot be read as a stamp" in update_on_branch(project, room).outcome


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_owner_is_left(project: Path, room: Checkouts) -> None:
    """Its settings and hooks are programs, which would run as whoever updates the fleet."""
    git(project, "init")
    git(project, "add", "--all")
    git(project, "commit", "--message", "x")
    for path in (project, *project.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    done = update_on_branch(project, room)
    assert (done.is_done, "dubious ownership" in done.outcome) == (False, True)
    assert f"git config --global --add safe.directory {project}" in done.outcome
    assert {path.stat().st_uid for path in project.rglob("*")} == {NOBODY}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_template_of_another_owner_is_fetched(project: Path, room: Checkouts) -> None:
    """One person keeps it for the lab; what it may do, it does when a project is made from it."""
    template = project.parent / "template"
    for path in (template, *template.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    assert room.at(str(template), room.commit(str(template), None)).is_dir()


def test_a_commit_that_fails_leaves_no_branch(
    project: Path, room: Checkouts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one would be taken for the update at the next call."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    git(project, "init")
    git(project, "commit", "--allow-empty", "--message", "Mine")
    done = SimpleNamespace(changes=("Makefile",), conflicts=())
    monkeypatch.setattr(branches, "update", lambda *_, **__: done)
    monkeypatch.setattr(branches, "_commit", fail)
    template = tmp_path / "template"
    git(template, "commit", "--allow-empty", "--message", "newer")
    told = update_on_branch(project, room)
    assert (told.is_done, "No space left on device" in told.outcome) == (False, True)
    listed = subprocess.run(["git", "branch", "--list", "template-*"], cwd=project, capture_output=True, check=True)
    assert listed.stdout == b""
