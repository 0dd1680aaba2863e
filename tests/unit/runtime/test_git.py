"""What git says of a project is said of this project."""

import os
import subprocess
from pathlib import Path

import pytest

from helpers.runtime.git import read_git_state

WORK_IN_ANOTHER = {"GIT_DIR": ".git", "GIT_WORK_TREE": "", "GIT_INDEX_FILE": ".git/index", "GIT_PREFIX": "sub/"}


@pytest.fixture
def repositories(tmp_path: Path) -> list[Path]:
    """Two repositories with a commit each, the second one with an edit."""
    found = []
    for name in ("asked", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "train.py").write_text(f"# {name}\n")
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", name]):
            subprocess.run(["git", *words], cwd=folder, check=True)
        found.append(folder)
    (tmp_path / "other" / "train.py").write_text("# edited\n")
    return found


def test_a_submission_from_another_repositorys_hook_records_its_own_commit(
    repositories: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that submits, or an editor's git: its variables name the repository that the hook belongs to."""
    asked, other = repositories
    alone = read_git_state(str(asked))
    for name, value in WORK_IN_ANOTHER.items():
        monkeypatch.setenv(name, os.path.join(other, value))  # noqa: PTH118 -- "" keeps its slash
    assert read_git_state(str(asked)) == alone
    assert (alone.edited, alone.branch, len(alone.commit or "")) == (False, alone.branch, 40)
