"""The project's source is kept as it was submitted."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.runtime.rank.source import changed_since
from helpers.submission.source import project_files, snapshot, untracked
from helpers.submission.source.snapshot import find_root, take_source
from tests.unit.submission.source.projects import copy_of, git, take, write


def test_source_is_copied_and_the_rest_linked(code: Path) -> None:
    """A path from ``__file__`` must lead to data and results as it did; copies are what an edit cannot reach."""
    copy = copy_of(code)
    kinds = {path.name: path.is_symlink() for path in copy.iterdir()}
    assert kinds == {
        "pyproject.toml": False,
        ".gitignore": False,
        "src": False,
        "data": True,
        "reports": True,
        "results": True,
        ".venv": True,
        ".env": True,
    }


def test_an_edit_does_not_reach_the_snapshot(code: Path) -> None:
    """In place, as many editors write: a hard link to the user's file would follow."""
    copy = copy_of(code)
    with (code / "src/digits/train.py").open("r+") as file:
        file.write("def train():\n    return 'new'\n")
    assert "old" in (copy / "src/digits/train.py").read_text()


def test_untracked_files_are_source_too(code: Path) -> None:
    """What is tried out is not committed yet."""
    write(code, {"src/digits/idea.py": "x = 1\n"})
    assert (copy_of(code) / "src/digits/idea.py").read_text() == "x = 1\n"


def test_a_large_file_is_linked(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights beside the code: the job finds them, and nobody copies them."""
    monkeypatch.setattr(project_files, "FILE_LIMIT_MB", 1)
    write(code, {"src/digits/weights.json": "x" * 2 * 2**20})
    assert (copy_of(code) / "src/digits/weights.json").is_symlink()


@pytest.mark.parametrize(("limit", "words"), [("TOTAL_LIMIT_MB", "the limit is 0 MiB"), ("FILES_LIMIT", "files; the")])
def test_a_project_that_is_too_large_is_said_and_not_copied(
    code: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], limit: str, words: str
) -> None:
    """Half a snapshot would be worse than none."""
    monkeypatch.setattr(project_files, limit, 0)
    taken = take(code)
    said = capfd.readouterr().err
    assert (taken.source.snapshot, words in taken.source.without, "no snapshot of" in said) == (None, True, True)
    assert not (code / "runs").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_that_git_does_not_read_is_said_with_the_line_that_mends_it(
    code: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A colleague's project: its runs would record no commit, in silence."""
    for path in (code, *code.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert take(code).source.commit is None
    said = capfd.readouterr().err
    assert f"the run records no commit of {code}: fatal: detected dubious ownership" in said
    assert f"git config --global --add safe.directory {code}\n" in said
    write(code, {"src/digits/idea.py": "x = 1\n"})
    take(code)
    assert capfd.readouterr().err == ""


def test_a_project_without_a_repository_is_told_nothing_of_git(code: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It may have none."""
    shutil.rmtree(code / ".git")
    take(code)
    assert capfd.readouterr().err == ""


def test_a_project_that_takes_too_long_is_said(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on another continent."""
    monkeypatch.setattr(snapshot, "TIME_LIMIT_S", -1.0)
    assert "more than" in take(code).source.without


def test_commit_and_changes_are_those_of_the_submission(code: Path) -> None:
    """Figures of a run are explained by them."""
    write(code, {"src/digits/train.py": "def train():\n    return 'edited'\n"})
    taken = take(code)
    source = taken.source
    assert (source.commit, source.branch, source.edited) == (git(code, "rev-parse", "HEAD"), "main", True)
    assert b"+    return 'edited'" in taken.difference


def test_a_project_without_git_is_kept_too(code: Path) -> None:
    """By what is neither hidden nor made."""
    for name in (".git", ".gitignore"):
        subprocess.run(["rm", "-rf", code / name], check=True)
    copy = copy_of(code)
    assert ((copy / "src/digits/train.py").is_symlink(), (copy / ".venv").is_symlink()) == (False, True)
    assert take(code).source.commit is None


def test_a_repository_without_settings_is_a_project(code: Path) -> None:
    """The library alone, without the template."""
    (code / "pyproject.toml").unlink()
    assert find_root(code / "src" / "digits") == code


def test_a_folder_of_no_project_has_no_source(tmp_path: Path) -> None:
    """A scratch folder may hold anything."""
    assert take_source(tmp_path, tmp_path / "runs", wanted=True) is None


def test_a_home_folder_in_git_is_no_project(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some keep their settings that way."""
    (code / "pyproject.toml").unlink()
    monkeypatch.setenv("HOME", str(code))
    assert find_root(code / "src") is None


def test_without_a_snapshot_a_change_since_is_told(code: Path) -> None:
    """The job then runs what it finds."""
    taken = take_source(code, code / "runs", wanted=False)
    assert taken is not None
    assert changed_since(taken.source) == ""
    write(code, {"src/digits/train.py": "edited\n"})
    assert "has changed since this was submitted" in changed_since(taken.source)


def test_a_snapshot_that_is_gone_is_told(code: Path) -> None:
    """The job then runs what it finds, too; it said nothing, and the record named the snapshot."""
    source = take(code).source
    assert changed_since(source) == ""
    shutil.rmtree(code / "runs" / ".snapshots")
    assert f"is gone ({source.snapshot}): this runs what {code} has now" in changed_since(source)


def test_new_code_counts_as_an_edit_and_can_be_made_again(code: Path, tmp_path: Path) -> None:
    """Provenance said "not edited" of code that is in no commit; the difference brings it back, odd names too."""
    new = {"src/digits/idea.py": "x = 1\n", 'src/digits/a "b" ü.py': "y", "src/digits/empty.py": "", "notes.md": "-\n"}
    write(code, new)
    taken = take(code)
    names = sorted(name for name in new if name.endswith(".py"))
    assert (taken.source.edited, taken.source.untracked) == (True, names)
    git(tmp_path, "clone", "--quiet", str(code), "clone")
    (tmp_path / "changes.diff").write_bytes(taken.difference)
    git(tmp_path / "clone", "apply", str(tmp_path / "changes.diff"))
    assert {name: (tmp_path / "clone" / name).read_text() for name in names} == {name: new[name] for name in names}
    assert changed_since(replace(taken.source, snapshot=None)) == ""


def test_much_new_code_is_named_in_part(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has its record and its difference: neither may grow without a bound."""
    monkeypatch.setattr(untracked, "NAMED", 2)
    monkeypatch.setattr(untracked, "DIFFERENCE_LIMIT_MB", 3 / 2**20)
    write(code, {f"src/digits/new{number}.py": "x\n" for number in range(4)})
    taken = take(code)
    assert taken.source.untracked == ["src/digits/new0.py", "src/digits/new1.py", "… and 2 more"]
    assert taken.difference.count(b"new file mode") == 1
