"""The next submission of a project costs nothing where nothing has changed, and every change is seen."""

from pathlib import Path
from typing import Any

import pytest

from helpers.submission.source import project_files, snapshot
from tests.unit.submission.source.projects import copy_of, git, settle, snapshots, take, write


def test_equal_content_is_kept_once(code: Path) -> None:
    """Also after an edit that was taken back, and in another process."""
    first = copy_of(code)
    write(code, {"src/digits/train.py": "changed\n"})
    copy_of(code)
    write(code, {"src/digits/train.py": "def train():\n    return 'old'\n"})
    snapshot._known.clear()
    assert (copy_of(code), len(snapshots(code))) == (first, 2)


def test_an_unchanged_file_is_not_copied_again(code: Path) -> None:
    """A hundred edits of one file are not a hundred projects on the disk."""
    first = copy_of(code)
    write(code, {"src/digits/train.py": "changed\n"})
    second = copy_of(code)
    words = "src/digits/words.yaml"
    assert (first != second, (first / words).samefile(second / words)) == (True, True)


def test_nothing_is_run_or_read_where_nothing_changed(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of submissions pays once."""
    known = settle(code)

    def fail(*_args: Any, **_keywords: Any) -> None:
        raise AssertionError("asked again")

    for name in ("list_project", "read_git_state", "_digest"):
        monkeypatch.setattr(snapshot, name, fail)
    assert take(code) is known


@pytest.mark.parametrize("name", ["src/digits/train.py", "src/digits/new.py", "src/new/deep.py", "empty/a.yaml"])
def test_every_change_is_seen(code: Path, name: str) -> None:
    """Of the same size; in a new folder too, and in one that was empty."""
    (code / "empty").mkdir()
    first = settle(code).source.snapshot
    write(code, {name: "def train():\n    return 'OLD'\n"})
    second = copy_of(code)
    assert (first != str(second), (second / name).read_text()) == (True, "def train():\n    return 'OLD'\n")


def test_results_that_git_ignores_are_no_change(code: Path) -> None:
    """Each run writes some, and each submission would list the project anew."""
    known = settle(code)
    write(code, {"results/more.txt": "2\n"})
    assert take(code) is known


def test_a_change_within_the_same_tick_is_seen(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system's clock has ticks of some milliseconds: what is as young as the look at it is read again."""
    monkeypatch.setattr(project_files, "_RACY_S", 3600)
    take(code)  # makes the folder of runs
    known = take(code)
    assert take(code) is not known


def test_a_deleted_file_is_seen(code: Path) -> None:
    """Tracked, and not there."""
    settle(code)
    (code / "src/digits/train.py").unlink()
    assert not (copy_of(code) / "src/digits/train.py").exists()


def test_a_folder_made_later_is_linked_too(code: Path) -> None:
    """The snapshot is shared with runs that were submitted before there were results."""
    write(code, {"results2/.gitignore": "*\n"})
    copy = copy_of(code)
    assert ((copy / "results2").is_symlink(), len(snapshots(code))) == (True, 1)


def test_a_commit_is_seen_though_no_file_changes(code: Path) -> None:
    """The next submission is of another commit."""
    write(code, {"src/digits/train.py": "edited\n"})
    before = settle(code)
    git(code, "commit", "-q", "-a", "-m", "more")
    after = take(code)
    assert (before.source.snapshot == after.source.snapshot, before.source.edited, after.source.edited) == (
        True,
        True,
        False,
    )
    assert after.source.commit == git(code, "rev-parse", "HEAD")
