"""A save that takes longer than the scheduler's warning still comes before the time limit."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime import stop
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.stop import LeaveForRequeue
from helpers.training import Checkpointer
from helpers.training.checkpoints import last_moment
from helpers.training.checkpoints.last_moment import LastMoment
from helpers.training.checkpoints.storage import CheckpointFolder
from tests.unit.training.checkpoint_fixtures import outside_a_job, steps_in  # noqa: F401 -- a fixture

HOUR_S = 3600.0
SAVE_S = 200.0  # Slurm warns 90 s before the limit


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [0.0]
    monkeypatch.setattr(last_moment.time, "time", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("end_time", "save_s", "left_at"),
    [
        (HOUR_S, SAVE_S, HOUR_S - 2.5 * SAVE_S - 5),
        (HOUR_S, 0.1, HOUR_S - 5.25),  # the warning comes long before
        (HOUR_S, HOUR_S, HOUR_S / 2),  # half of the time is for training
    ],
)
def test_training_leaves_in_time_for_two_saves(
    clock: list[float], end_time: float, save_s: float, left_at: float
) -> None:
    """One may be under way when it is time for the last."""
    moment = LastMoment(end_time)
    clock[0] = end_time - 1
    assert not moment.has_come()  # nothing is known yet
    moment.measured(save_s)
    clock[0] = left_at - 0.01
    assert not moment.has_come()
    clock[0] = left_at
    assert moment.has_come()


def test_without_a_time_limit_it_never_comes(clock: list[float]) -> None:
    """On a laptop, for one."""
    moment = LastMoment(None)
    moment.measured(HOUR_S)
    clock[0] = 1e12
    assert not moment.has_come()


def test_a_training_whose_saves_take_long_leaves_before_the_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last save is cut off by the limit, and the steps since the one before are lost."""
    run = RunFolder(tmp_path / "run")
    run.logs.mkdir(parents=True)
    run.begin_attempt()
    monkeypatch.setenv("HELPERS_RUN", str(run.path))
    monkeypatch.setenv("HELPERS_END_TIME", str(int(time.time() + HOUR_S)))
    measured: list[float] = []
    note, commit = LastMoment.measured, CheckpointFolder.commit

    def note_more(moment: LastMoment, save_s: float) -> None:
        measured.append(save_s)
        note(moment, save_s + SAVE_S)

    def commit_slowly(folder: CheckpointFolder, *arguments: Any) -> Path:
        time.sleep(0.2)
        return commit(folder, *arguments)

    monkeypatch.setattr(LastMoment, "measured", note_more)
    monkeypatch.setattr(CheckpointFolder, "commit", commit_slowly)
    checkpoint = Checkpointer({"n": 1})
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    assert measured[0] >= 0.2
    checkpoint.step()
    monkeypatch.setattr(last_moment.time, "time", lambda: HOUR_S * 1e9)
    with pytest.raises(LeaveForRequeue):
        checkpoint.step()
    request = stop.stop_request()
    assert request is not None
    assert request.signal_name == stop.OUT_OF_TIME
    assert json.loads(run.attempt(0).requeue_mark.read_text())["step"] == 3
    assert steps_in(run.checkpoints)[-1] == "step-00000003"
