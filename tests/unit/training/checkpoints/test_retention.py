"""Which checkpoints stay, which go, and who may write."""

import errno
import json
import math
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from helpers.errors import InvalidRequest
from helpers.training import Checkpointer
from helpers.training.checkpoints.lease import FolderTaken
from helpers.training.checkpoints.storage import CheckpointFolder
from tests.unit.training.checkpoint_fixtures import outside_a_job, steps_in  # noqa: F401 -- a fixture


def test_the_newest_are_kept_with_the_best_and_the_one_resumed_from(tmp_path: Path) -> None:
    """Removing the only good copy is the classic fault of retention (torchtitan, verl #7952)."""
    folder = tmp_path / "c"
    first = Checkpointer({"n": 0}, folder=folder, save_every=1, keep=2)
    for step in first.steps(4):
        first._state["n"] = step
        first.keep_best(loss=abs(step - 1.0))
    assert steps_in(folder) == ["step-00000003", "step-00000004"]
    assert Checkpointer.load(folder, "n", best=True) == 1
    second = Checkpointer({"n": 0}, folder=folder, save_every=1, keep=2)
    list(second.steps(9))
    assert steps_in(folder) == ["step-00000004", "step-00000008", "step-00000009"]
    assert [path.name for path in folder.glob("best-*")] == ["best-step-00000001"]


def test_damaged_ones_do_not_count_among_those_kept(tmp_path: Path) -> None:
    """Three broken folders must not push out the last good one."""
    folder = tmp_path / "c"
    checkpoint = Checkpointer({}, folder=folder, save_every=1, keep=2)
    list(checkpoint.steps(2))
    (folder / "step-00000002" / "state.json").unlink()
    list(checkpoint.steps(3))
    assert steps_in(folder) == ["step-00000001", "step-00000002", "step-00000003"]


def test_the_best_is_told_by_its_metric(tmp_path: Path) -> None:
    """Higher is better, except for losses; equal and NaN are not; another metric is a mistake."""
    state = {"n": 0}
    checkpoint = Checkpointer(state, folder=tmp_path / "c")
    for value in (0.5, math.nan, 0.7, 0.7, 0.6):
        state["n"] += 1
        checkpoint.keep_best(accuracy=value)
    assert Checkpointer.load(tmp_path / "c", "n", best=True) == 3
    with pytest.raises(InvalidRequest, match="chosen by accuracy, not by loss"):
        checkpoint.keep_best(loss=0.1)
    with pytest.raises(InvalidRequest, match="takes one metric"):
        checkpoint.keep_best(a=1, b=2)
    upside_down = Checkpointer({"n": 1}, folder=tmp_path / "d")
    upside_down.keep_best(score=3, lower_is_better=True)
    upside_down._state["n"] = 2
    upside_down.keep_best(score=2, lower_is_better=True)
    assert Checkpointer.load(tmp_path / "d", "n", best=True) == 2


def test_an_older_attempt_never_commits_after_a_newer_one_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that was lost and comes back finds its job restarted elsewhere."""
    old = Checkpointer({}, folder=tmp_path / "c")
    monkeypatch.setenv("HELPERS_ATTEMPT", "1")
    new = Checkpointer({}, folder=tmp_path / "c")
    old.step()
    old.save()
    with pytest.raises(FolderTaken, match="nothing more is saved from here"):
        old.wait()
    new.step()
    new.save()
    new.wait()
    assert steps_in(tmp_path / "c") == ["step-00000001"]
    assert not list((tmp_path / "c").glob("*.tmp-*"))
    monkeypatch.setenv("HELPERS_ATTEMPT", "0")
    with pytest.raises(FolderTaken, match="Attempt 1 writes to"):
        Checkpointer({}, folder=tmp_path / "c")


def test_leftovers_of_a_killed_attempt_are_cleaned_and_others_left(tmp_path: Path) -> None:
    """Temporary files must not pile up; a later attempt's are not ours."""
    folder = tmp_path / "c"
    for name in ("step-00000001.tmp-0-abcd", "step-00000001.tmp-5-abcd", "removed-step-00000001-aa", "mine"):
        (folder / name).mkdir(parents=True)
    Checkpointer({}, folder=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["lease.json", "mine", "step-00000001.tmp-5-abcd"]


def test_a_committed_step_is_never_altered(tmp_path: Path) -> None:
    """Writing over a checkpoint destroys it when the writer is killed."""
    checkpoint = Checkpointer({"n": 1}, folder=tmp_path / "c")
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    shutil.copytree(tmp_path / "c" / "step-00000001", tmp_path / "copy")
    checkpoint._saves.durable = None
    checkpoint._state["n"] = 2
    checkpoint.save()
    checkpoint.wait()
    for path in (tmp_path / "copy").iterdir():
        assert (tmp_path / "c" / "step-00000001" / path.name).read_bytes() == path.read_bytes()


@pytest.fixture
def stranger() -> Iterator[psutil.Process]:
    """Another process of this machine."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield psutil.Process(process.pid)
        process.kill()


def _hold(folder: Path, process: psutil.Process, *, started: float) -> None:
    host = socket.gethostname()
    holder = {"attempt": 0, "host": host, "pid": process.pid, "started": started, "token": "x"}
    (folder / "lease.json").write_text(json.dumps(holder))


def test_another_living_process_is_not_written_beside(tmp_path: Path, stranger: psutil.Process) -> None:
    """Two trainings that were given one folder would mix their checkpoints."""
    _hold(tmp_path, stranger, started=stranger.create_time())
    with pytest.raises(FolderTaken, match=f"Process {stranger.pid} of this machine writes to"):
        Checkpointer({}, folder=tmp_path)


def test_who_has_a_dead_holders_number_is_not_taken_for_it(tmp_path: Path, stranger: psutil.Process) -> None:
    """Process ids are used again: after a reboot the folder would be refused until a stranger ends."""
    _hold(tmp_path, stranger, started=1.0)
    assert Checkpointer({}, folder=tmp_path).restore() == 0


def test_an_old_one_that_cannot_be_removed_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was to be saved is on the disk: that is no failed save."""
    checkpoint = Checkpointer({}, folder=tmp_path, keep=2)
    monkeypatch.setattr(CheckpointFolder, "remove", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    for _ in range(3):
        checkpoint.step()
        checkpoint.save()
        checkpoint.wait()
    assert steps_in(tmp_path) == ["step-00000001", "step-00000002", "step-00000003"]
    assert capsys.readouterr().err == ""
