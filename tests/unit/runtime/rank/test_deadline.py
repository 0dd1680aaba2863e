"""A step that is longer than the warning costs that step, and not the job."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime import stop
from helpers.runtime.current import Run
from helpers.runtime.rank import deadline
from helpers.runtime.rank.place import Ranks
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.outcome import Kind, read_outcome


class Left(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return a run with a checkpoint of step 30, warned a moment ago; its processes end by ``Left``."""

    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(deadline.os, "_exit", leave)
    monkeypatch.setattr(deadline, "_MARK_S", 0.3)
    monkeypatch.setattr(stop, "_leaving", threading.Event())
    monkeypatch.setattr(stop, "_requested", threading.Event())
    monkeypatch.setattr(stop, "_request", None)
    stop.request_stop("SIGUSR2")
    folder = RunFolder(tmp_path)
    folder.logs.mkdir()
    folder.begin_attempt()
    (folder.checkpoints / "step-00000030").mkdir(parents=True)
    return folder


def _leave(run: RunFolder, *, rank: int = 0, left_s: float = 0.2, **description: Any) -> None:
    ranks = Ranks(rank=rank, world_size=2)
    here = Run(folder=run.path, ranks=ranks, attempt=0, end_time=time.time() + left_s)
    facts = {"requeue": "auto", "warning_s": 60, **description}
    deadline.leave_in_time(here, type("Description", (), facts)())


def test_the_newest_checkpoint_is_what_the_requeued_job_goes_on_from(run: RunFolder) -> None:
    """Without the mark the time limit would be the end."""
    with pytest.raises(Left):
        _leave(run)
    assert json.loads(run.attempt(0).requeue_mark.read_text())["step"] == 30
    outcome = read_outcome(run.attempt(0).outcome(0))
    assert outcome is not None
    assert outcome.kind is Kind.LEFT


def test_the_others_wait_for_rank_0(run: RunFolder) -> None:
    """It is rank 0 that asks; alone they stay."""
    _leave(run, rank=1)
    assert read_outcome(run.attempt(0).outcome(1)) is None
    run.attempt(0).requeue_mark.write_text("{}")
    with pytest.raises(Left):
        _leave(run, rank=1)


@pytest.mark.parametrize(
    "case",
    [{"left_s": 500.0}, {"requeue": False}],
    ids=["long before the limit", "not to be requeued"],
)
def test_it_stays_where_the_limit_is_not_the_reason_or_nobody_wants_it_back(
    run: RunFolder, case: dict[str, Any]
) -> None:
    """A preemption is requeued by Slurm itself."""
    _leave(run, **case)
    assert not run.attempt(0).requeue_mark.exists()


def test_a_training_that_wanted_to_leave_early_for_its_save_has_a_deadline_too(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no preemption, however far the limit was when it asked."""
    monkeypatch.setattr(stop, "_request", stop.StopRequest(stop.OUT_OF_TIME, time.time() - 500))
    with pytest.raises(Left):
        _leave(run)
    assert run.attempt(0).requeue_mark.exists()


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(run: RunFolder) -> None:
    """A second run would begin anew in silence."""
    (run.checkpoints / "step-00000030").rmdir()
    _leave(run)
    assert not run.attempt(0).requeue_mark.exists()


def test_a_save_that_is_under_way_gets_more_time(run: RunFolder) -> None:
    """The boundary was reached: what is being written is newer."""
    stop.begin_to_leave()
    begin = time.monotonic()
    with pytest.raises(Left):
        _leave(run, left_s=3.0)
    assert time.monotonic() - begin > 0.9
