"""The guard judges what git is about to commit, not only what lies there."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from helpers.errors import InvalidRequest
from helpers.project.raw_data.guard import guard
from helpers.runtime.raw_data.area import raw_area
from tests.unit.project.raw_data.conftest import Helpers, Run, make_writable, write_raw


def test_a_commit_of_something_else_passes(project: Path, git: Run) -> None:
    """Most commits have nothing to do with raw data."""
    (project / "notes.md").write_text("Words.\n")
    git(project, "add", "notes.md")
    assert guard(project).wrong == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_that_git_does_not_read_is_no_project_without_git(project: Path) -> None:
    """What is staged was not looked at: the guard must not say that there is nothing to look at."""
    for path in (project, *project.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    with pytest.raises(InvalidRequest, match="dubious ownership") as refused:
        guard(project)
    assert f"git config --global --add safe.directory {project}" in refused.value.hint


def test_what_is_staged_is_judged_although_the_file_is_as_it_was(project: Path, git: Run) -> None:
    """A change that was staged and then undone would be committed all the same."""
    write_raw(project, "a.csv", "19,9\n")
    git(project, "add", "--all")
    write_raw(project, "a.csv", "1,2\n")
    assert guard(project).wrong == ["changed: data/raw/a.csv (what is staged is not what the staged manifest declares)"]


def test_a_file_whose_line_is_not_staged_is_named_with_the_cure(project: Path, git: Run, helpers: Helpers) -> None:
    """The manifest belongs to the same commit."""
    write_raw(project, "c.csv", "5\n")
    helpers(project, "add", "data/raw/c.csv")
    git(project, "add", "data/raw/c.csv")
    (line,) = guard(project).wrong
    assert line == "undeclared: data/raw/c.csv (its line in the manifest is not staged: git add data/raw.manifest)"
    git(project, "add", "data/raw.manifest")
    assert guard(project).wrong == []


def test_a_rename_says_where_the_file_went(project: Path, git: Run) -> None:
    """Who finds the file missing finds it again."""
    make_writable(project / "data/raw/scans")
    git(project, "mv", "data/raw/scans/b.csv", "b.csv")
    assert guard(project).wrong == ["deleted: data/raw/scans/b.csv (renamed to b.csv)"]


def test_a_file_may_leave_git_and_stay(project: Path, git: Run, helpers: Helpers) -> None:
    """A file that has become too large for git is still raw data; a clone must not miss it as deleted."""
    (project / ".gitignore").write_text("/data/raw/a.csv\n")
    git(project, "rm", "--cached", "--quiet", "data/raw/a.csv")
    (line,) = guard(project).wrong
    assert line.startswith("deleted: data/raw/a.csv (its line says that git keeps it: git add it, or let git ignore it")
    helpers(project, "add", "data/raw/a.csv")
    git(project, "add", "--all")
    verdict = guard(project)
    assert verdict.wrong == []
    assert "data/raw/a.csv leaves git, and stays here and in the manifest" in verdict.notes


def test_a_file_that_goes_into_git_has_a_line_that_says_so(
    project: Path, git: Run, helpers: Helpers, tmp_path: Path
) -> None:
    """Nothing else tells a clone without it that it was deleted."""
    (project / ".gitignore").write_text("/data/raw/*\n")
    write_raw(project, "c.csv", "5\n")
    helpers(project, "add", "data/raw/c.csv")
    git(project, "add", "--all", "--force", "data")
    assert "git keeps data/raw/c.csv, and the manifest does not say so" in helpers(project, "verify").stderr
    (line,) = guard(project).wrong
    cure = "helpers data add data/raw/c.csv && git add data/raw.manifest"
    assert line == f"undeclared: data/raw/c.csv (git keeps it, and its line does not say so: {cure})"
    helpers(project, "add", "data/raw/c.csv")
    (line,) = guard(project).wrong
    assert line == "undeclared: data/raw/c.csv (its line in the manifest is not staged: git add data/raw.manifest)"
    git(project, "add", "data/raw.manifest")
    assert guard(project).wrong == []


def test_a_file_that_is_no_longer_declared_may_go(project: Path, git: Run, helpers: Helpers) -> None:
    """By a commit that shows both."""
    helpers(project, "unlock")
    helpers(project, "forget", "data/raw/a.csv")
    git(project, "rm", "--quiet", "data/raw/a.csv")
    git(project, "add", "--all")
    assert guard(project).wrong == []


def test_a_commit_of_a_part_is_judged_by_that_part(project: Path, git: Run) -> None:
    """``git commit FILE`` has an index of its own, whose path git tells to its hooks."""
    write_raw(project, "a.csv", "19,9\n")
    refused = git(project, "commit", "-m", "A part", "data/raw/a.csv")
    assert refused.returncode != 0
    assert "changed: data/raw/a.csv" in refused.stdout + refused.stderr


def test_a_project_below_the_top_of_its_repository_is_guarded(tmp_path: Path, git: Run, helpers: Helpers) -> None:
    """A lab may keep ten projects in one repository."""
    project = tmp_path / "lab" / "net"
    project.mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    write_raw(project, "a.csv", "1\n")
    git(project.parent, "init", "--quiet")
    helpers(project, "add", "data/raw")
    git(project, "add", "--all")
    git(project, "commit", "-m", "Raw data")
    make_writable(project / "data/raw")
    git(project, "mv", "data/raw/a.csv", "../a.csv")
    assert [line.split(" (")[0] for line in guard(project).wrong] == ["deleted: data/raw/a.csv"]


def test_in_a_second_work_tree_its_own_files_are_judged(
    project: Path, git: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git sets GIT_DIR there, which would lead back to the first."""
    git(project, "worktree", "add", "--quiet", str(tmp_path / "second"))
    write_raw(tmp_path / "second", "a.csv", "19,9\n")
    git(tmp_path / "second", "add", "--all")
    monkeypatch.setenv("GIT_DIR", str(project / ".git"))
    assert guard(tmp_path / "second").wrong[0].startswith("changed: data/raw/a.csv")


def test_a_pointer_of_git_lfs_stands_for_its_content(project: Path, git: Run) -> None:
    """In the index there is a note of size and checksum, not the data."""
    entry = raw_area(project).manifest.entries["a.csv"]
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{entry.sha256}\nsize {entry.size}\n"
    done = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=project, input=pointer, capture_output=True, text=True, check=True
    )
    git(project, "update-index", "--cacheinfo", f"100644,{done.stdout.strip()},data/raw/a.csv")
    assert guard(project).wrong == []


def test_a_broken_manifest_blocks_the_commit_and_is_named(project: Path, helpers: Helpers) -> None:
    """Nothing can be said about files that a broken manifest declares."""
    with (project / "data/raw.manifest").open("a") as manifest:
        manifest.write("<<<<<<< HEAD\n")
    refused = helpers(project, "guard")
    assert (refused.exit_code, "raw.manifest:3: a line has path" in refused.stderr) == (2, True)


def test_odd_names_survive_the_commit(empty: Path, git: Run, helpers: Helpers) -> None:
    """A line break, a tab, and bytes that are no UTF-8."""
    names = ["two\nlines.csv", "tab\t.csv", os.fsdecode(b"bad\xff.csv"), "#1.csv"]
    for name in names:
        write_raw(empty, name, "1\n")
    assert helpers(empty, "add", "data/raw").exit_code == 0
    git(empty, "add", "--all")
    assert git(empty, "commit", "-m", "Odd").returncode == 0
    write_raw(empty, names[2], "19\n")
    record = json.loads(helpers(empty, "verify", "--json").stdout)
    assert [finding["path"] for finding in record["areas"][0]["findings"]] == [names[2]]
    assert guard(empty).wrong == [r"changed: data/raw/bad\xff.csv (it has 3 bytes, 2 were declared)"]


def test_without_git_the_files_are_judged_and_that_is_said(tmp_path: Path) -> None:
    """A tree that came as a zip has raw data, too."""
    write_raw(tmp_path, "a.csv", "1\n")
    verdict = guard(tmp_path)
    assert verdict.wrong == ["undeclared: data/raw/a.csv"]
    assert "there is no git here: only the files themselves were looked at" in verdict.notes
