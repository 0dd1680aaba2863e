"""``save()`` saves now: at a step that is saved already beside what is there, which is never altered."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.files import sync_folder
from helpers.training import Checkpointer
from helpers.training.checkpoints import storage
from helpers.training.checkpoints.inspection import choose_spare, list_saved
from helpers.training.checkpoints.saving import SaveFailed
from helpers.training.checkpoints.storage import CheckpointFolder, Position
from tests.unit.training.checkpoint_fixtures import names_in, outside_a_job, steps_in  # noqa: F401 -- a fixture


def _save(checkpoint: Checkpointer) -> None:
    checkpoint.save()
    checkpoint.wait()


def test_what_is_saved_again_is_what_loads_and_the_first_stays_as_it_is(tmp_path: Path) -> None:
    """The second of two saves at one step was dropped without a word."""
    state = {"n": 1}
    checkpoint = Checkpointer(state, folder=tmp_path / "c", keep=None)
    checkpoint.step()
    _save(checkpoint)
    first = tmp_path / "c" / "step-00000001"
    shutil.copytree(first, tmp_path / "copy")
    for value in (2, 3):
        state["n"] = value
        _save(checkpoint)
    assert steps_in(tmp_path / "c") == ["step-00000001", "step-00000001-again-0001", "step-00000001-again-0002"]
    assert Checkpointer.load(tmp_path / "c", "n") == 3
    assert Checkpointer.load(tmp_path / "c" / "step-00000001-again-0001", "n") == 2
    assert names_in(first) == names_in(tmp_path / "copy")
    for path in (tmp_path / "copy").iterdir():
        assert (first / path.name).read_bytes() == path.read_bytes()


def test_a_save_after_one_that_was_due_is_one(tmp_path: Path) -> None:
    """What is due by itself may come first at the same step."""
    state = {"n": 1}
    checkpoint = Checkpointer(state, folder=tmp_path / "c", save_every=1)
    checkpoint.step()
    state["n"] = 2
    _save(checkpoint)
    assert Checkpointer.load(tmp_path / "c", "n") == 2


def test_a_save_after_restoring_is_one_and_is_gone_on_from(tmp_path: Path) -> None:
    """A run that goes on takes the newest revision, and numbers on from it."""
    list(Checkpointer({"n": 1}, folder=tmp_path / "c").steps(3))
    for value in (2, 3):
        state = {"n": 0}
        checkpoint = Checkpointer(state, folder=tmp_path / "c")
        assert checkpoint.restore() == 3
        assert state["n"] == value - 1
        state["n"] = value
        _save(checkpoint)
    assert steps_in(tmp_path / "c") == ["step-00000003", "step-00000003-again-0001", "step-00000003-again-0002"]
    assert checkpoint.latest() == tmp_path / "c" / "step-00000003-again-0002"


def test_a_save_between_two_epochs_is_newer_than_that_of_the_epochs_end(tmp_path: Path) -> None:
    """No step has been done since: under the plain name of the step it would sort before the end of the epoch."""
    state = {"n": 0}
    checkpoint = Checkpointer(state, folder=tmp_path / "c")
    for epoch in checkpoint.epochs(1):
        state["n"] = epoch + 1
        checkpoint.step()
    state["n"] = 7
    _save(checkpoint)
    assert steps_in(tmp_path / "c") == ["step-00000001-epoch-0001", "step-00000001-epoch-0001-again-0001"]
    resumed = Checkpointer(state := {"n": 0}, folder=tmp_path / "c")
    assert list(resumed.epochs(1)) == []
    assert state["n"] == 7


def test_what_is_due_by_itself_is_not_saved_twice(tmp_path: Path) -> None:
    """The end of the loop finds its step saved."""
    checkpoint = Checkpointer({"n": 1}, folder=tmp_path / "c", save_every=2)
    for _ in checkpoint.steps(2):
        checkpoint.step()
    assert steps_in(tmp_path / "c") == ["step-00000002"]
    _save(checkpoint)
    list(checkpoint.steps(2))
    assert steps_in(tmp_path / "c") == ["step-00000002", "step-00000002-again-0001"]


def test_names_sort_as_positions_do() -> None:
    """The newest is found by its name too, without this library."""
    positions = [
        Position(step, epochs_done, revision)
        for step in (9, 10)
        for epochs_done in (0, 1, 2)
        for revision in (0, 1, 10)
    ]
    assert positions == sorted(positions)
    names = [position.name for position in positions]
    assert names == sorted(names)
    assert [Position.from_name(name) for name in names] == positions
    assert Position.from_name("step-00000009-again-1") is None


def test_retention_counts_what_was_saved_again(tmp_path: Path) -> None:
    """A revision is a checkpoint like any other: kept, shown and removed in its place."""
    state = {"n": 0}
    checkpoint = Checkpointer(state, folder=tmp_path / "c", keep=3)
    for _ in range(2):
        checkpoint.step()
        _save(checkpoint)
        _save(checkpoint)
    assert [one.name for one in list_saved(tmp_path / "c")] == steps_in(tmp_path / "c")
    assert steps_in(tmp_path / "c") == ["step-00000001-again-0001", "step-00000002", "step-00000002-again-0001"]
    assert [one.name for one in choose_spare(tmp_path / "c", keep=1, damaged=False)] == [
        "step-00000001-again-0001",
        "step-00000002",
    ]


def test_all_ranks_save_again_as_the_same_revision(start_run: Callable[..., Any]) -> None:
    """Each rank's part is in each revision, and both ranks go on from the newest."""
    run = start_run("again", 2)
    assert run.run("meet.py", "again") == [0, 0], run.logs()
    assert steps_in(run.path / "c") == ["step-00000001", "step-00000001-again-0001", "step-00000001-again-0002"]
    assert [len(list(path.glob("rank-*.json"))) for path in sorted((run.path / "c").glob("step-*"))] == [2, 2, 2]
    assert run.logs().count('{"n": 3}') == 2, run.logs()


def test_a_save_whose_name_did_not_reach_the_disk_has_not_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told as failed and still there, it would have stood in the way of the next one at its step."""

    def fail_for_names(folder: Path) -> None:
        if folder == tmp_path / "c":
            raise OSError(5, os.strerror(5))
        sync_folder(folder)

    state = {"n": 1}
    checkpoint = Checkpointer(state, folder=tmp_path / "c")
    checkpoint.step()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "sync_folder", fail_for_names)
        checkpoint.save()
        with pytest.raises(SaveFailed, match="Input/output error"):
            checkpoint.wait()
    assert CheckpointFolder(tmp_path / "c").positions() == []
    state["n"] = 2
    _save(checkpoint)
    assert Checkpointer.load(tmp_path / "c", "n") == 2
