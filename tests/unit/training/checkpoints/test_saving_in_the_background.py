"""Saving goes on beside training: what is saved is one step, and what fails is told by the next."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import torch

from helpers.runtime import stop, unfinished
from helpers.runtime.stop import LeaveForRequeue
from helpers.training import Checkpointer
from helpers.training.checkpoints import saving
from helpers.training.checkpoints.lease import FolderTaken
from helpers.training.checkpoints.saving import SaveFailed
from helpers.training.checkpoints.snapshot import Buffers
from tests.waiting import wait_for

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stop, "_request", None)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event without which no tensor reaches the disk."""
    opened, write = threading.Event(), saving.write_tensors

    def write_when_open(path: Path, tensors: Any) -> Any:
        assert opened.wait(60)
        return write(path, tensors)

    monkeypatch.setattr(saving, "write_tensors", write_when_open)
    return opened


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*") if ".tmp-" not in path.name)


def test_the_state_may_be_changed_while_it_is_written(tmp_path: Path, gate: threading.Event) -> None:
    """What is loaded is what was there when ``save`` was called, tensors, arrays and nested values alike."""
    state: dict[str, Any] = {"x": torch.zeros(1000), "views": [torch.zeros(4, 4).t()], "n": 1, "list": [1]}
    state["array"] = torch.zeros(8).numpy()
    model = torch.nn.Linear(3, 3)
    state["model"] = model
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    checkpoint = Checkpointer(state, folder=tmp_path)
    checkpoint.step()
    checkpoint.save()
    with torch.no_grad():
        for tensor in (state["x"], *state["views"], *model.parameters()):
            tensor.fill_(7)
    state["array"][:] = 7
    state["list"].append(2)
    state["n"] = 2
    gate.set()
    checkpoint.wait()
    loaded = Checkpointer.load(tmp_path)
    assert (loaded["n"], loaded["list"], loaded["array"].sum()) == (1, [1], 0)
    assert not loaded["x"].any()
    assert not loaded["views"][0].any()
    assert all(torch.equal(loaded["model"][name], weights[name]) for name in weights)


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path: Path, gate: threading.Event) -> None:
    """Steps are counted while the disk is busy, and nothing is visible before it is whole."""
    checkpoint = Checkpointer({"x": torch.zeros(5)}, folder=tmp_path, save_every=2)
    for _ in range(3):
        checkpoint.step()
    assert _names(tmp_path) == []
    gate.set()
    checkpoint.wait()
    assert _names(tmp_path) == ["step-00000002"]


def test_one_save_is_in_flight_at_most(tmp_path: Path, gate: threading.Event) -> None:
    """A disk that is slower than training would otherwise fill the memory with copies."""
    checkpoint = Checkpointer({"x": torch.zeros(5)}, folder=tmp_path, save_every=1)
    checkpoint.step()
    second = threading.Thread(target=checkpoint.step)
    second.start()
    wait_for(lambda: list(tmp_path.glob("*.tmp-*")), "the first is begun")
    second.join(0.3)
    assert second.is_alive()  # it waits for the first
    assert len(list(tmp_path.glob("*.tmp-*"))) == 1
    gate.set()
    second.join(60)
    checkpoint.wait()
    assert _names(tmp_path) == ["step-00000001", "step-00000002"]


def test_ctrl_c_while_it_waits_leaves_the_save_in_flight(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``except KeyboardInterrupt: checkpoint.save()`` is what people write."""
    checkpoint = Checkpointer({"x": torch.zeros(2)}, folder=tmp_path)
    checkpoint.step()
    checkpoint.save()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            checkpoint.wait()
    gate.set()
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    assert _names(tmp_path) == ["step-00000001", "step-00000002"]


def test_a_failure_is_raised_by_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning raises it at the next *save*, which may be an hour later."""
    checkpoint = Checkpointer({"x": torch.zeros(5)}, folder=tmp_path)
    monkeypatch.setattr(saving, "write_tensors", _break)
    checkpoint.step()
    checkpoint.save()
    checkpoint._saver.await_end()
    with pytest.raises(SaveFailed, match="Input/output error"):
        checkpoint.step()
    checkpoint.step()  # told once


def test_a_save_that_was_due_by_itself_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has asked for it, and the older ones are there."""
    checkpoint = Checkpointer({"x": torch.zeros(5)}, folder=tmp_path, save_every=1)
    monkeypatch.setattr(saving, "write_tensors", _break)
    checkpoint.step()
    checkpoint._saver.await_end()
    checkpoint.step()
    assert "Input/output error" in capsys.readouterr().err
    checkpoint.wait()


def test_a_mistake_of_the_writer_ends_training_at_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a disk is forgiven: who lost the folder to another process must not go on."""
    old = Checkpointer({}, folder=tmp_path, save_every=5)
    monkeypatch.setenv("HELPERS_ATTEMPT", "1")
    Checkpointer({}, folder=tmp_path)
    for _ in range(5):
        old.step()
    old._saver.await_end()
    with pytest.raises(FolderTaken):
        old.step()


def _break(*_: Any) -> None:
    raise OSError(5, os.strerror(5))


def test_a_stop_waits_for_what_is_in_flight_and_saves_anew(tmp_path: Path, gate: threading.Event) -> None:
    """The step at which training was stopped is the one to go on from."""
    checkpoint = Checkpointer({"x": torch.zeros(5)}, folder=tmp_path, save_every=3)
    for _ in range(3):
        checkpoint.step()
    stop.request_stop("SIGTERM")
    threading.Timer(0.2, gate.set).start()
    with pytest.raises(LeaveForRequeue, match="step 4 is saved"):
        checkpoint.step()
    assert _names(tmp_path) == ["step-00000003", "step-00000004"]


def test_buffers_are_used_again_and_follow_the_state(tmp_path: Path) -> None:
    """The second copy of the state is the last one, whatever changes its shape."""
    buffers = Buffers()
    state = {"x": torch.ones(100), "y": torch.ones(2, dtype=torch.bfloat16)}
    first = buffers.take(state, shared=True).tensors
    state["x"].fill_(3)
    second = buffers.take(state, shared=True).tensors
    assert [second[name].data_ptr() for name in first] == [first[name].data_ptr() for name in first]
    assert second["state.x"].eq(3).all()
    state["x"] = torch.ones(7)
    assert buffers.take(state, shared=True).tensors["state.x"].shape == (7,)


def test_the_memory_for_the_first_copy_is_made_beside_training(tmp_path: Path) -> None:
    """Making it costs several times what the copying does, and training would wait for it."""
    buffers = Buffers()
    state = {"x": torch.ones(100), "views": [torch.ones(4, 4).t()]}
    buffers.reserve(state)
    assert buffers._reserving is not None
    buffers._reserving.join()
    made = {name: buffer.data_ptr() for name, buffer in buffers._buffers.items()}
    taken = buffers.take(state, shared=True).tensors
    assert {name: tensor.data_ptr() for name, tensor in taken.items()} == made
    assert all(bool(tensor.eq(1).all()) for tensor in taken.values())


def test_saving_takes_the_memory_of_one_copy(tmp_path: Path) -> None:
    """At most 1.05 times the state, however often it is saved."""
    size = 64 << 20
    state = {f"x{number}": torch.ones(size // 32) for number in range(8)}
    checkpoint = Checkpointer(state, folder=tmp_path, keep=2)
    before = psutil.Process().memory_info().rss
    most = 0
    for _ in range(3):
        checkpoint.step()
        checkpoint.save()
        most = max(most, psutil.Process().memory_info().rss - before)
        checkpoint.wait()
        most = max(most, psutil.Process().memory_info().rss - before)
    assert most < 1.05 * size + (4 << 20)


def test_too_little_room_is_known_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that cannot fit does not fill the disk for the others first."""
    checkpoint = Checkpointer({"x": torch.zeros(5)}, folder=tmp_path)
    usage = saving.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda _: usage._replace(free=10))
    checkpoint.step()
    with pytest.raises(SaveFailed, match=r"No space left on device \(\d+ bytes needed, 10 free\)"):
        checkpoint.save()
    assert [path.name for path in tmp_path.iterdir()] == ["lease.json"]


PROGRAM = """
import sys, torch
from helpers.training import Checkpointer
checkpoint = Checkpointer({"x": torch.zeros(2_000_000)}, folder=sys.argv[1])
checkpoint.step()
checkpoint.save()
"""


def test_a_program_that_ends_at_once_has_saved(tmp_path: Path) -> None:
    """The end of Python waits for the writer."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, check=True)
    assert _names(tmp_path) == ["step-00000001"]


def test_an_error_after_the_last_step_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner asks what is unfinished before it calls a function returned."""
    checkpoint = Checkpointer({"x": torch.zeros(5)}, folder=tmp_path)
    monkeypatch.setattr(saving, "write_tensors", _break)
    checkpoint.step()
    checkpoint.save()
    del checkpoint
    with pytest.raises(SaveFailed):
        unfinished.finish_all()
    unfinished.finish_all()


def test_several_ranks_save_in_the_background(start_run: Callable[..., Any]) -> None:
    """A run that saves at every step ends as one that never does, and every checkpoint is of one step."""
    straight, saving_often = start_run("straight", 2), start_run("often", 2)
    assert straight.train("--epochs", "2") == [0, 0], straight.logs()
    assert saving_often.train("--epochs", "2", "--save-every", "1") == [0, 0], saving_often.logs()
    assert saving_often.ends() == straight.ends()
    assert len(_names(saving_often.folder.checkpoints)) == 3
