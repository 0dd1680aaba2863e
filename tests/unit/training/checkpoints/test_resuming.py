"""A training that was stopped, and goes on, is the same training."""

import contextlib
import importlib.util
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from helpers.runtime import stop
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.stop import LeaveForRequeue
from helpers.training import Checkpointer, make_loader
from helpers.training.checkpoints import snapshot
from helpers.training.checkpoints.loading import restore_own
from helpers.training.checkpoints.manifest import read_manifest
from helpers.training.checkpoints.random_state import capture_random_state
from tests.unit.training.checkpoint_fixtures import outside_a_job, steps_in  # noqa: F401 -- a fixture

PROGRAM = Path(__file__).parents[1] / "programs" / "train.py"


@pytest.fixture
def program() -> Any:
    spec = importlib.util.spec_from_file_location("train_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["train_program"] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def _train_here(program: Any, path: Path, *arguments: str) -> None:
    """Run one attempt of ``train.py`` in this process."""
    path.mkdir(exist_ok=True)
    stop._request = None
    with contextlib.suppress(LeaveForRequeue):
        program.train(program.read_arguments([str(path), "--folder", str(path / "c"), *arguments]))


def test_a_run_resumed_at_any_step_is_the_same_run_bit_for_bit(program: Any, tmp_path: Path) -> None:
    """20 steps equal k + (20 - k) for every k, with dropout, shuffling, augmentation and batch norm."""
    _train_here(program, tmp_path / "straight", "--epochs", "2")
    expected = (tmp_path / "straight" / "end-0.json").read_text()
    for step in range(1, 20):
        path = tmp_path / f"cut-{step}"
        _train_here(program, path, "--epochs", "2", "--stop-at", str(step))
        assert not (path / "end-0.json").exists()
        torch.manual_seed(step)
        _train_here(program, path, "--epochs", "2")
        assert (path / "end-0.json").read_text() == expected
        assert (path / "steps-0.jsonl").read_text() == (tmp_path / "straight" / "steps-0.jsonl").read_text()


def test_a_run_with_workers_resumed_in_new_processes_is_the_same_run(start_run: Callable[..., Any]) -> None:
    """50 steps equal 20 + 30: batches read ahead are not lost, and augmentation repeats."""
    straight, cut = start_run("straight"), start_run("cut")
    assert straight.train("--workers", "2") == [0]
    assert cut.train("--workers", "2", "--term-at", "20") == [0], cut.logs()
    assert json.loads(cut.folder.attempt(0).requeue_mark.read_text())["step"] == 20
    assert cut.train("--workers", "2") == [0]
    assert cut.ends() == straight.ends()
    assert cut.steps() == straight.steps()


def test_an_epochs_last_step_is_saved_at_the_epochs_end(tmp_path: Path) -> None:
    """A run that went on from the last step would find its loop over the loader empty: ``loss`` unbound."""
    data = TensorDataset(torch.arange(4))
    state = {"loader": make_loader(data, batch_size=2)}
    checkpoint = Checkpointer(state, folder=tmp_path / "c", save_every=2)
    for _ in checkpoint.epochs(2):
        for _ in state["loader"]:
            checkpoint.step()
        checkpoint_names = steps_in(tmp_path / "c")
        assert "step-00000002" not in checkpoint_names
    assert steps_in(tmp_path / "c") == ["step-00000002-epoch-0001", "step-00000004-epoch-0002"]


@pytest.mark.parametrize("nest", [lambda loader: {"train": loader}, lambda loader: [loader], lambda loader: (loader,)])
def test_a_loader_that_is_nested_in_the_state_moves_to_its_next_epoch_too(tmp_path: Path, nest: Any) -> None:
    """Otherwise the run that goes on gets no batch in its first epoch, without a word."""
    for attempt, epochs in enumerate([[0, 1], [2, 3]]):
        loader = make_loader(TensorDataset(torch.arange(4)), batch_size=2)
        checkpoint = Checkpointer({"loaders": nest(loader)}, folder=tmp_path / "c", save_every=2)
        batches = []
        for epoch in checkpoint.epochs(2 * attempt + 2):
            for _ in loader:
                batches.append(epoch)
                checkpoint.step()
        assert batches == [epoch for epoch in epochs for _ in range(2)]
    assert steps_in(tmp_path / "c")[-1] == "step-00000008-epoch-0004"


def test_a_stop_at_an_epochs_last_step_is_saved_at_once_and_left_at_the_end(tmp_path: Path) -> None:
    """The evaluation may take longer than the scheduler waits; no step may be lost then."""
    data = TensorDataset(torch.arange(4))
    state = {"loader": make_loader(data, batch_size=2)}
    checkpoint = Checkpointer(state, folder=tmp_path / "c")
    epochs = checkpoint.epochs(2)
    next(epochs)
    iterator = iter(state["loader"])
    for _ in range(2):
        next(iterator)
        stop._request = stop.StopRequest("SIGTERM", 0.0) if _ else None
        checkpoint.step()
    assert steps_in(tmp_path / "c") == ["step-00000002"]
    assert list(iterator) == []
    with pytest.raises(LeaveForRequeue):
        next(epochs)
    assert steps_in(tmp_path / "c") == ["step-00000002", "step-00000002-epoch-0001"]


def test_a_validation_in_the_midst_of_an_epoch_puts_nothing_off(tmp_path: Path) -> None:
    """Its loader stays at its end: no save was made up to the epoch's end, and a stop was not heeded."""
    train, validation = (make_loader(TensorDataset(torch.arange(size)), batch_size=2) for size in (20, 4))
    checkpoint = Checkpointer({"train": train, "validation": validation}, folder=tmp_path / "c", save_every=2)
    epochs = checkpoint.epochs(2)
    next(epochs)
    for step, _ in enumerate(train, 1):
        if step == 3:
            assert len(list(validation)) == 2
        if step == 7:
            stop._request = stop.StopRequest("SIGTERM", 0.0)
            with pytest.raises(LeaveForRequeue):
                checkpoint.step()
            break
        checkpoint.step()
    assert steps_in(tmp_path / "c") == ["step-00000004", "step-00000006", "step-00000007"]


def test_without_a_warning_at_most_the_steps_since_the_last_save_are_lost(program: Any, tmp_path: Path) -> None:
    """The checkpoint of step 15 is there, and the run ends as if nothing had been."""
    options = ("--epochs", "3", "--save-every", "5")
    _train_here(program, tmp_path / "straight", *options)
    with pytest.raises(KeyboardInterrupt):
        _train_here(program, tmp_path / "killed", *options, "--raise-at", "18")
    _train_here(program, tmp_path / "killed", *options)
    assert (tmp_path / "killed" / "end-0.json").read_text() == (tmp_path / "straight" / "end-0.json").read_text()
    lines = (tmp_path / "killed" / "steps-0.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [*range(1, 19), *range(16, 31)]


def test_a_stop_during_evaluation_resumes_with_the_next_epoch(program: Any, tmp_path: Path) -> None:
    """The end of an epoch is a boundary too; no epoch is dropped or repeated."""
    _train_here(program, tmp_path / "straight", "--epochs", "3")
    stopped = tmp_path / "stopped"
    _train_here(program, stopped, "--epochs", "3", "--stop-in-evaluation", "0")
    assert steps_in(stopped / "c") == ["step-00000010-epoch-0001"]
    _train_here(program, stopped, "--epochs", "3")
    for name in ("end-0.json", "steps-0.jsonl"):
        assert (stopped / name).read_text() == (tmp_path / "straight" / name).read_text()


def test_every_random_generator_goes_on(tmp_path: Path) -> None:
    """A resumed run draws what the other one would have drawn."""
    first = Checkpointer({"g": torch.Generator().manual_seed(3)}, folder=tmp_path / "c")
    first.step()
    first.save()

    def draw(generator: torch.Generator) -> tuple[float, ...]:
        old = np.random.rand(), random.random()  # noqa: NPY002, S311 -- what users do
        return torch.rand(1).item(), torch.rand(1, generator=generator).item(), *old

    expected = draw(first._state["g"])
    second = Checkpointer({"g": torch.Generator()}, folder=tmp_path / "c")
    second.restore()
    assert draw(second._state["g"]) == expected


def test_another_number_of_threads_or_another_device_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes on, and is not bit for bit what it would have been in one go."""
    saved_elsewhere = capture_random_state() | {"device_type": "another", "device": None}
    first = Checkpointer({}, folder=tmp_path / "c")
    first.step()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 97)
        patch.setattr(snapshot, "capture_random_state", lambda: saved_elsewhere)
        first.save()
        first.wait()
    Checkpointer({}, folder=tmp_path / "c").restore()
    said = capsys.readouterr().err
    assert "saved with 97 threads, resumed with" in said
    assert "saved on another, resumed on" in said


def test_ranks_that_the_saved_run_did_not_have_draw_numbers_of_their_own(tmp_path: Path) -> None:
    """The same in all of them would be the same augmentation and dropout in all of them; drawn anew, the same again."""
    first = Checkpointer({}, folder=tmp_path / "c")
    first.step()
    first.save()
    first.wait()
    manifest = read_manifest(tmp_path / "c" / "step-00000001")

    def draw(rank: int) -> tuple[float, ...]:
        restore_own({}, manifest, None, SimpleNamespace(rank=rank, world_size=4))  # type: ignore[arg-type]
        return torch.rand(1).item(), np.random.rand(), random.random()  # noqa: NPY002, S311 -- what users do

    drawn = [draw(rank) for rank in (1, 2, 3)]
    assert [len(set(numbers)) for numbers in zip(*drawn, strict=True)] == [3, 3, 3]
    assert drawn == [draw(rank) for rank in (1, 2, 3)]


def test_a_stop_saves_asks_for_the_requeue_and_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In that order: the mark promises a durable step."""
    run = RunFolder(tmp_path / "run")
    (tmp_path / "run" / "logs").mkdir(parents=True)
    run.begin_attempt()
    monkeypatch.setenv("HELPERS_RUN", str(run.path))
    checkpoint = Checkpointer({"n": 1})
    checkpoint.step()
    stop.request_stop("SIGTERM")
    with pytest.raises(LeaveForRequeue):
        checkpoint.step()
    assert json.loads(run.attempt(0).requeue_mark.read_text())["step"] == 2
    assert steps_in(run.checkpoints) == ["step-00000002"]
