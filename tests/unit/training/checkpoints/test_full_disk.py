"""A disk that takes no more costs a checkpoint, and neither the training nor an older one."""

import errno
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.runtime import stop
from helpers.runtime.stop import LeaveForRequeue
from helpers.training import Checkpointer
from helpers.training.checkpoints import lease, saving
from helpers.training.checkpoints.saving import SaveFailed
from tests.unit.training.checkpoint_fixtures import in_child, names_in, outside_a_job, three_checkpoints  # noqa: F401 -- a fixture


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three checkpoints, of the values 1, 2 and 3."""
    return three_checkpoints(tmp_path / "c")


def _fail_to_write(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let writes of tensors fail as on a full disk, as long as the list is not empty."""
    full = [1]
    real = saving.write_tensors

    def write(path: Path, tensors: Any) -> Any:
        if full:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, tensors)

    monkeypatch.setattr(saving, "write_tensors", write)
    return full


def test_a_full_disk_warns_once_leaves_the_older_ones_and_is_recovered_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training is worth more than a checkpoint."""
    state = {"x": torch.zeros(50), "n": 0}
    checkpoint = Checkpointer(state, folder=folder, save_every=1)
    checkpoint.restore()
    full = _fail_to_write(monkeypatch)
    for _ in range(3):
        checkpoint.step()
    checkpoint.wait()
    said = capsys.readouterr().err
    assert said.count("No space left on device") == 1
    assert "training goes on" in said
    assert [path.name for path in folder.glob("step-*")].count("step-00000003") == 1
    assert not list(folder.glob("*.tmp-*"))
    assert Checkpointer.load(folder, "n") == 3
    full.clear()
    checkpoint.step()
    checkpoint.wait()
    assert "can be written again (step 7)" in capsys.readouterr().err
    assert (folder / "step-00000007").exists()


def test_a_save_that_was_asked_for_raises_on_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who calls save() wants to know; it is an OSError with what to look at."""
    checkpoint = Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder)
    checkpoint.restore()
    _fail_to_write(monkeypatch)
    checkpoint.step()
    checkpoint.save()
    with pytest.raises(SaveFailed, match=r"(?s)No space left on device.*hint: df -h") as caught:
        checkpoint.wait()
    assert isinstance(caught.value, OSError)
    assert Checkpointer.load(folder, "n") == 3


def test_a_stop_on_a_full_disk_leaves_for_the_last_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The requeued job goes on from step 3; that is said."""
    checkpoint = Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder)
    checkpoint.restore()
    _fail_to_write(monkeypatch)
    checkpoint.step()
    stop.request_stop("SIGTERM")
    with pytest.raises(LeaveForRequeue, match="step 3 is saved"):
        checkpoint.step()
    assert "go on from step 3 instead" in capsys.readouterr().err


def test_a_stop_on_a_full_disk_without_any_checkpoint_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A requeue would begin anew in silence."""
    checkpoint = Checkpointer({"x": torch.zeros(50)}, folder=tmp_path / "c")
    _fail_to_write(monkeypatch)
    stop.request_stop("SIGTERM")
    with pytest.raises(SaveFailed):
        checkpoint.step()


def test_what_a_killed_save_left_makes_room_for_the_next_attempt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be what fills the disk: the job could not begin, and so never remove it."""
    leftover = folder / "step-00000004.tmp-0-abcd"
    leftover.mkdir()
    real = lease.write_json

    def write_where_there_is_room(path: Path, value: Any) -> None:
        if leftover.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, value)

    monkeypatch.setattr(lease, "write_json", write_where_there_is_room)
    monkeypatch.setenv("HELPERS_ATTEMPT", "1")
    assert Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder).restore() == 3


def test_the_systems_own_refusal_to_write_is_met(folder: Path) -> None:
    """A limit on file sizes, as a quota would: a part of the file is written, then an error comes."""
    assert in_child(_save_more_than_allowed, folder) == 0
    assert names_in(folder) == ["lease.json", "step-00000001", "step-00000002", "step-00000003"]


def _save_more_than_allowed(folder: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    state: dict[str, Any] = {"x": torch.zeros(50), "n": 0}
    checkpoint = Checkpointer(state, folder=folder, save_every=1)
    checkpoint.restore()
    state["n"] = b"x" * 200_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    checkpoint.step()
    checkpoint.wait()
