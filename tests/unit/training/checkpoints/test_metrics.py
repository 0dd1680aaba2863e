"""Metrics go where the run is, and a step that is done again does not count twice."""

import errno
import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from helpers.errors import InvalidRequest
from helpers.runtime import stop
from helpers.training import Checkpointer
from helpers.training.checkpoints import metrics


@pytest.fixture(autouse=True)
def outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stop, "_request", None)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_step_attempt_time_and_what_was_given(tmp_path: Path) -> None:
    """Tensors and NumPy's numbers are numbers; they lie in the run folder, beside the checkpoints."""
    checkpoint = Checkpointer({}, folder=tmp_path / "checkpoints")
    checkpoint.step()
    checkpoint.log(loss=torch.tensor(0.5), accuracy=np.float32(0.25), split="val", n=3)
    [line] = _lines(tmp_path / "metrics.jsonl")
    assert line.pop("time") > 0
    assert line == {"step": 1, "attempt": 0, "loss": 0.5, "accuracy": 0.25, "split": "val", "n": 3}


def test_in_a_job_they_are_in_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the checkpoints are somewhere else."""
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("HELPERS_RUN", str(tmp_path / "run"))
    Checkpointer({}, folder=tmp_path / "elsewhere").log(loss=1)
    assert len(_lines(tmp_path / "run" / "metrics.jsonl")) == 1


def test_what_came_after_the_restored_step_is_marked_superseded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A curve drawn from all lines would go back in time."""
    folder = tmp_path / "checkpoints"
    first = Checkpointer({}, folder=folder, save_every=2)
    first.restore()
    for _ in range(3):
        first.step()
        first.log(loss=1.0)
    first.wait()
    monkeypatch.setenv("HELPERS_ATTEMPT", "1")
    second = Checkpointer({}, folder=folder, save_every=2)
    assert second.restore() == 2
    second.step()
    second.log(loss=math.nan)
    lines = _lines(tmp_path / "metrics.jsonl")
    assert [(line["attempt"], line["step"], line.get("superseded")) for line in lines] == [
        (0, 1, None),
        (0, 2, None),
        (0, 3, True),
        (1, 3, None),
    ]
    assert math.isnan(lines[3]["loss"])


def test_a_value_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """As is a name that is written by itself."""
    checkpoint = Checkpointer({}, folder=tmp_path)
    with pytest.raises(InvalidRequest, match="loss is a Tensor; a metric is a number"):
        checkpoint.log(loss=torch.ones(2))
    with pytest.raises(InvalidRequest, match="cannot be named step"):
        checkpoint.log(step=3)


def test_a_plain_torch_file_is_read_with_a_warning(tmp_path: Path) -> None:
    """It has no checksum, and that is said each time."""
    torch.save({"model": torch.nn.Linear(2, 1).state_dict(), "epoch": 3}, tmp_path / "old.pt")
    with pytest.warns(UserWarning, match="no checksum, so damage in it would not be noticed"):
        loaded = Checkpointer.load_plain(tmp_path / "old.pt")
    assert loaded["epoch"] == 3
    assert set(loaded["model"]) == {"weight", "bias"}


class _Own:
    """A class of the user's, which only a pickle that runs code can bring back."""


def test_a_plain_file_runs_code_only_if_that_is_asked_for(tmp_path: Path) -> None:
    """C25: what the product has not written is not unpickled in silence."""
    torch.save({"own": _Own()}, tmp_path / "old.pt")
    with (
        pytest.warns(UserWarning, match="no checksum"),
        pytest.raises(InvalidRequest, match="holds more than tensors and plain values") as refused,
    ):
        Checkpointer.load_plain(tmp_path / "old.pt")
    assert "run_code=True" in refused.value.hint
    with pytest.warns(UserWarning, match="code in it is run"):
        assert isinstance(Checkpointer.load_plain(tmp_path / "old.pt", run_code=True)["own"], _Own)
    with pytest.raises(InvalidRequest, match="There is no file"):
        Checkpointer.load_plain(tmp_path / "none.pt")


def test_a_full_disk_costs_metrics_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it costs a checkpoint; it is said once."""
    first = Checkpointer({}, folder=tmp_path, save_every=1)
    for _ in range(2):
        first.step()
        first.log(loss=1.0)
    first.wait()
    (tmp_path / "step-00000002").rename(tmp_path / "lost")
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(metrics, "append_json_line", Mock(side_effect=full))
    monkeypatch.setattr(metrics, "write_whole", Mock(side_effect=full))
    second = Checkpointer({}, folder=tmp_path, save_every=1)
    assert second.restore() == 1
    for _ in range(2):
        second.step()
        second.log(loss=1.0)
    second.wait()
    assert capsys.readouterr().err.count("metrics.jsonl: No space left on device; training goes on") == 1
