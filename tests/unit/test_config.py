"""Runs go where the project says, from whichever folder of it one submits."""

from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.config import find_project, runs_folder, working_directory


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELPERS_RUNS", raising=False)


def make_project(folder: Path, settings: str = "[tool.helpers]\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(settings)
    return folder


def test_the_nearest_project_above_is_the_one(tmp_path: Path) -> None:
    """A project may lie in another one."""
    outer, inner = make_project(tmp_path / "outer"), make_project(tmp_path / "outer" / "inner")
    assert (find_project(inner / "src" / "net"), find_project(outer / "src")) == (inner, outer)


def test_a_pyproject_of_another_kind_is_passed_by(tmp_path: Path) -> None:
    """A package of its own inside the project, with the word helpers somewhere in it."""
    project = make_project(tmp_path / "project")
    package = make_project(project / "package", '[project]\nname = "helpers-of-mine"\n')
    assert find_project(package) == project


def test_without_a_project_runs_are_here(tmp_path: Path) -> None:
    """The library is used alone, without the template."""
    assert runs_folder(tmp_path) == tmp_path / "runs"


def test_in_a_project_runs_are_at_its_root(tmp_path: Path) -> None:
    """A notebook in a folder of its own does not scatter them."""
    project = make_project(tmp_path / "project")
    assert runs_folder(project / "notebooks") == project / "runs"


def test_the_project_may_say_where_runs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home folder has a quota of 20 GB."""
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    project = make_project(tmp_path / "project", '[tool.helpers.storage]\nruns = "$SCRATCH/runs"\n')
    assert runs_folder(project) == tmp_path / "scratch" / "runs"


def test_the_environment_counts_more_than_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command of one user."""
    monkeypatch.setenv("HELPERS_RUNS", str(tmp_path / "elsewhere"))
    assert runs_folder(make_project(tmp_path / "project")) == tmp_path / "elsewhere"


def test_a_broken_pyproject_is_named(tmp_path: Path) -> None:
    """Passed by in silence, the runs would go somewhere else."""
    project = make_project(tmp_path / "project", "[tool.helpers\n")
    with pytest.raises(InvalidRequest, match=r"project/pyproject.toml is no valid TOML"):
        find_project(project)


def test_the_working_directory_is_the_one_that_the_user_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a link points to here may not exist on the nodes."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    assert working_directory() == tmp_path / "link"


def test_a_stale_pwd_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``os.chdir`` does not change it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", "/")
    assert working_directory() == tmp_path
