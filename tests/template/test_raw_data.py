"""Case C41 in a generated project: the hook that it brings blocks each change of raw data, by its file's name."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template
SAMPLE = "data/raw/optdigits.csv.gz"


@pytest.fixture(scope="module")
def project(bake: Baker) -> Path:
    """A project whose raw data is changed, and put back after each change."""
    return bake().project


def commit(project: Path, home: Home, *words: str) -> tuple[int, str]:
    """Commit all there is, and return git's exit code and what was said."""
    home.git(project, "add", "--all")
    done = subprocess.run(
        ["git", "commit", "--message", "Change", *words],
        cwd=project,
        env=home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def put_back(project: Path, home: Home) -> None:
    home.git(project, "reset", "--quiet", "--hard")
    home.git(project, "clean", "--quiet", "-xdff", "data")


def test_a_changed_file_blocks_the_commit(project: Path, home: Home) -> None:
    (project / SAMPLE).chmod(0o644)
    (project / SAMPLE).write_bytes((project / SAMPLE).read_bytes()[:-1] + b"!")
    code, said = commit(project, home)
    assert (code, f"changed: {SAMPLE}" in said) == (1, True), said
    put_back(project, home)


def test_a_deleted_file_blocks_the_commit(project: Path, home: Home) -> None:
    """A hook that is given file names is never given this one."""
    (project / SAMPLE).unlink()
    code, said = commit(project, home)
    assert (code, f"deleted: {SAMPLE}" in said) == (1, True), said
    put_back(project, home)


def test_a_file_that_is_renamed_away_blocks_the_commit(project: Path, home: Home) -> None:
    (project / SAMPLE).rename(project / "data" / "optdigits.csv.gz")
    code, said = commit(project, home)
    assert (code, f"deleted: {SAMPLE} (renamed to data/optdigits.csv.gz)" in said) == (1, True), said
    put_back(project, home)


def test_a_large_new_file_stays_out_of_git_and_must_be_declared(project: Path, home: Home) -> None:
    """Git ignores it; the guard sees it all the same."""
    (project / "data/raw/scans.tar").write_bytes(b"much")
    (project / "notes.md").write_text("New scans.\n")
    code, said = commit(project, home)
    assert (code, "undeclared: data/raw/scans.tar" in said) == (1, True), said
    done = subprocess.run(
        ["helpers", "data", "add", "data/raw/scans.tar"],
        cwd=project,
        env=home.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, said = commit(project, home)
    assert code == 0, said
    assert home.git(project, "show", "--name-only", "--format=").splitlines() == ["data/raw.manifest", "notes.md"]
    assert set(home.git(project, "ls-files", "data/raw").splitlines()) == {"data/raw/.gitkeep", SAMPLE}


def test_setup_locks_raw_data_but_not_in_ci(default_bake: Bake, home: Home) -> None:
    """A runner that keeps its folder could not check out the next commit."""

    def steps(**environment: str) -> list[str]:
        done = subprocess.run(
            ["make", "--dry-run", "setup"],
            cwd=default_bake.project,
            env=home.environment(**environment),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    assert steps()[-1] == "helpers data lock"
    assert "helpers data lock" not in steps(CI="true")


def test_a_deletion_past_the_hook_fails_in_ci(bake: Baker, home: Home, tmp_path: Path) -> None:
    """It has a clone of one commit, which never saw the file; the manifest says that git should have it."""
    project = bake().project
    home.git(project, "rm", "--quiet", SAMPLE)
    home.git(project, "commit", "--quiet", "--no-verify", "--message", "Tidy up")
    home.git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project}", "clone")
    done = subprocess.run(
        ["make", "check"],
        cwd=tmp_path / "clone",
        env=home.environment(CI="true", VIRTUAL_ENV=sys.prefix),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"deleted: {SAMPLE}" in done.stdout
