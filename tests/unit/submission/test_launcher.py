"""What ``launcher=`` may be, and what it comes to."""

import os
from pathlib import Path

import pytest

from helpers import InvalidRequest, submit
from tests.unit.submission import functions


@pytest.fixture
def mpirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which says what it is told to."""
    program = tmp_path / "bin" / "mpirun"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


def where() -> tuple[str, str]:
    return os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]


def test_all_ranks_are_told_one_meeting_point(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning and accelerate read it before anybody listens there; one of the caller's own job is not inherited."""
    monkeypatch.setenv("HELPERS_ALLOW_LOCAL", "1")
    monkeypatch.setenv("MASTER_PORT", "1")
    first, second = submit(where, processes=2, cluster="local").results(timeout=240)
    assert first == second
    assert first[0] == "127.0.0.1"
    assert int(first[1]) > 1024


@pytest.mark.parametrize("value", ["torchrun", "", 1])
def test_another_launcher_is_refused(value: object) -> None:
    """With the one there is."""
    with pytest.raises(InvalidRequest, match="launcher is 'mpi', or left out") as caught:
        submit(functions.add, 1, cluster="local", dry_run=True, launcher=value)
    assert caught.value.hint == 'launcher="mpi"'


def test_the_mpirun_of_another_mpi_is_refused(project: Path, mpirun: Path) -> None:
    """It has other options, and its daemons other words."""
    mpirun.write_text("#!/bin/sh\necho 'HYDRA build details:'\n")
    with pytest.raises(InvalidRequest, match="HYDRA build details") as caught:
        submit(functions.add, 1, cluster="local", dry_run=True, launcher="mpi")
    assert "HELPERS_MPI=pmi2" in caught.value.hint


def test_no_container_is_entered_by_mpirun(project: Path, mpirun: Path) -> None:
    """Better a refusal than ranks beside the image."""
    with pytest.raises(InvalidRequest, match="does not reach into a container"):
        submit(functions.add, 1, cluster="local", dry_run=True, launcher="mpi", container="image.sif")


def test_inline_it_is_this_process(project: Path) -> None:
    """MPI begins as one of one."""
    assert submit(functions.add, 1, cluster="inline", launcher="mpi").result() == functions.add(1)
