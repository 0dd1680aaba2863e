"""A run folder is its owner's, and with ``share = "group"`` the group may read all of it but ``private/``."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import InvalidRequest, Job, attach, submit

PATIENCE_S = 240


def print_and_keep(folder: str) -> None:
    from helpers import current_run

    print("hello")
    run = current_run()
    assert run.folder is not None
    (run.folder / folder).mkdir()
    (run.folder / folder / "made.txt").write_text("by the function")


@pytest.fixture(params=[0o022, 0o077], ids=["umask 022", "umask 077"])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    for name in ("HELPERS_RUNS", "HELPERS_SHARE"):
        monkeypatch.delenv(name, raising=False)
    return folder


def run_job() -> Job[Any]:
    job = submit(print_and_keep, "own", cluster="local", name="shared")
    job.result(PATIENCE_S)
    return job


def closed_to_group(folder: Path) -> set[str]:
    """Return what the group cannot read, below a folder and itself."""
    closed = set()
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        needed = stat.S_IRGRP | (stat.S_IXGRP if path.is_dir() else 0)
        if mode & needed != needed:
            closed.add(path.relative_to(folder).as_posix())
    return closed


@pytest.mark.usefixtures("_umask")
def test_a_run_folder_is_its_owners_alone() -> None:
    """Logs show data, arguments and paths; who wants to share them says so."""
    job = run_job()
    assert job.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("_umask")
def test_the_group_may_read_all_but_what_is_private(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what the function makes, under a umask that would hide it; never the pickles."""
    monkeypatch.setenv("HELPERS_SHARE", "group")
    job = run_job()
    closed = closed_to_group(job.folder)
    assert {name for name in closed if not name.startswith("private/")} == {"private"}
    assert job.folder.joinpath("private").stat().st_mode & 0o777 == 0o700
    assert closed_to_group(project / "runs") - {f"shared/{job.folder.name}/{name}" for name in closed} <= {".snapshots"}


@pytest.mark.usefixtures("_umask")
def test_nobody_but_the_group_gains_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others cannot enter the folder, and the group cannot write."""
    monkeypatch.setenv("HELPERS_SHARE", "group")
    job = run_job()
    assert job.folder.stat().st_mode & 0o777 == 0o750
    writable = [path for path in job.folder.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o020]
    assert writable == []


def test_the_setgid_bit_of_a_groups_folder_is_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what gives the files to the group."""
    monkeypatch.setenv("HELPERS_SHARE", "group")
    (project / "runs").mkdir()
    (project / "runs").chmod(0o2775)
    assert run_job().folder.stat().st_mode & stat.S_ISGID


def test_a_run_that_is_not_shared_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pointer in a shared folder of runs can be seen, the folder cannot be entered."""
    job = run_job()

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(InvalidRequest, match="is another user's, and not shared"):
        attach(job.folder)
