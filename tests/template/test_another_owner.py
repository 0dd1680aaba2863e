"""One person keeps the template and the lab's files for all, and git trusts no repository of another owner unasked."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from helpers.project.template.stamp import read_stamp
from tests.template.test_requirement import requirement

if TYPE_CHECKING:
    from pathlib import Path

    from tests.template.conftest import Bake, Baker, Home

NOBODY = 65534
# Before git 2.38, and as Debian and Ubuntu mended older ones, only files may say which folders are safe.
OLDER_GIT = """#!/bin/sh
for word; do
    case $word in safe.directory=*) exit 128 ;; esac
done
exec {git} "$@"
"""

pytestmark = [
    pytest.mark.template,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
]


@pytest.fixture
def older_git(tmp_path: Path, home: Home) -> dict[str, str]:
    """The variables of a process that finds such a git first."""
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(OLDER_GIT.format(git=shutil.which("git")))
    program.chmod(0o755)
    return home.environment(PATH=f"{program.parent}:{home.environment()['PATH']}")


@pytest.fixture
def overlay(tmp_path: Path, home: Home) -> Path:
    """A lab's folder of files, under git, with a tag."""
    folder = tmp_path / "overlay"
    folder.mkdir()
    (folder / "lab.cfg").write_text("old\n")
    home.git(folder, "init", "--quiet")
    home.git(folder, "add", "--all")
    home.git(folder, "commit", "--quiet", "--message", "The lab")
    home.git(folder, "tag", "v1")
    return folder


def give_away(folder: Path) -> None:
    """Make all of a folder another's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def commit_in_stamp(baked: Bake) -> str | None:
    """Return the commit of the lab's files that the project knows."""
    overlay = read_stamp(baked.project).overlay
    return overlay["commit"] if overlay else None


def test_a_shared_clone_is_named_with_its_commit(
    released: Path, home: Home, bake: Baker, older_git: dict[str, str]
) -> None:
    """Each project of the lab comes from there; without a commit it would be a trial, and none could be updated."""
    commit = home.git(released, "rev-parse", "HEAD")
    give_away(released)
    baked = bake(template=released, environment=older_git)
    assert requirement(baked.project) == f"slurm-torch-helpers @ git+file://localhost{released}@{commit}"
    assert json.loads((baked.project / ".template.json").read_text())["commit"] == commit


def test_the_bake_says_what_git_has_to_be_told_of_a_shared_clone(released: Path, bake: Baker) -> None:
    """`make setup` is next, and pip would fail there with git's words in a wall of its own."""
    told = f"git config --global --add safe.directory {released}/.git"
    assert told not in bake(template=released).output
    give_away(released)
    assert told in bake(template=released).output


def test_files_of_a_lab_that_are_anothers_are_known_by_their_commit(overlay: Path, home: Home, bake: Baker) -> None:
    """An update needs it, to tell the lab's changes from the user's."""
    commit = home.git(overlay, "rev-parse", "HEAD")
    give_away(overlay)
    assert commit_in_stamp(bake(lab_overlay=str(overlay))) == commit
    assert commit_in_stamp(bake(lab_overlay=f"{overlay}#v1")) == commit


def test_an_overlay_that_cannot_be_fetched_is_refused_with_gits_reason(tmp_path: Path, bake: Baker) -> None:
    """Git's last line is half a sentence: "and the repository exists"."""
    missing = tmp_path / "nothing.git"
    output = bake(lab_overlay=f"file://{missing}").output
    assert f"cannot be had (fatal: '{missing}' does not appear to be a git repository)" in output
