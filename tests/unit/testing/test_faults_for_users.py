"""The faults that users let loose on their own training: what survives is told from what does not."""

import importlib.util
import multiprocessing
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.testing import faults

TRAINING = """
import time
import torch
from helpers.runtime.current import current_run
from helpers.training import Checkpointer

def train(steps):
    torch.manual_seed(0)
    state = {"sum": 0.0}
    for _ in Checkpointer(state, save_every=5).steps(steps):
        state["sum"] += torch.rand(1).item()
        time.sleep(0.01)
    return state["sum"]

def save_nothing():
    return 1

def never_end():
    time.sleep(600)

def forget(steps):
    torch.manual_seed(0)
    total = 0.0
    for _ in Checkpointer({}, save_every=5).steps(steps):
        total += 1
        time.sleep(0.01)
    return total
"""


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a user's module."""
    path = tmp_path / "users_training.py"
    path.write_text(textwrap.dedent(TRAINING))
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.spec_from_file_location("users_training", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "users_training", module)
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


@pytest.mark.parametrize("fault", [faults.kill, faults.stop, faults.flip_bits])
def test_a_training_with_a_checkpointer_survives(
    training: Any, tmp_path: Path, fault: Callable[..., faults.Report]
) -> None:
    """Every fault, at a random moment."""
    report = fault(training.train, 40, folder=tmp_path / "runs", times=2)
    report.check()
    assert len(report.trials) == 2


def test_a_full_disk_costs_no_result(training: Any, tmp_path: Path) -> None:
    """Training is worth more than a checkpoint."""
    faults.fill_disk(training.train, 40, folder=tmp_path / "runs").check()


def test_state_that_is_not_kept_is_found_out(training: Any, tmp_path: Path) -> None:
    """A variable that belongs in the state and is not there: the commonest mistake of all."""
    report = faults.flip_bits(training.forget, 40, folder=tmp_path / "runs", times=1)
    with pytest.raises(AssertionError, match="1 of 1 faults were not survived"):
        report.check()


def test_a_training_that_saves_nothing_is_told_so(training: Any, tmp_path: Path) -> None:
    """There is no bit to flip."""
    with pytest.raises(AssertionError, match="has saved no checkpoint"):
        faults.flip_bits(training.save_nothing, folder=tmp_path / "runs", times=1)


def test_a_training_that_never_ends_does_not_run_beside_the_next(
    training: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two on one folder would spoil each other's state; and a test run waits for all its children."""
    monkeypatch.setattr(faults, "_PATIENCE_S", 3.0)
    with pytest.raises(AssertionError, match="does not return by itself"):
        faults.kill(training.never_end, folder=tmp_path / "runs", times=1)
    assert multiprocessing.active_children() == []
