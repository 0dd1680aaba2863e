"""The Checkpointer in one process: exact resume, what is kept, what is said."""

import contextlib
import dataclasses
import importlib.util
import json
import math
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from helpers.errors import InvalidRequest
from helpers.runtime import stop
from helpers.runtime.run_folder import RunFolder
from helpers.runtime.stop import LeaveForRequeue
from helpers.training import Checkpointer, make_loader
from helpers.training.lease import FolderTaken
from helpers.training.manifest import NewerFormat, read_manifest

PROGRAM = Path(__file__).parent / "programs" / "train.py"


@dataclasses.dataclass
class Note:
    text: str


@pytest.fixture(autouse=True)
def outside_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stop, "_request", None)


def _steps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def _train_here(program: Any, path: Path, *arguments: str) -> None:
    """Run one attempt of ``train.py`` in this process."""
    path.mkdir(exist_ok=True)
    stop._request = None
    with contextlib.suppress(LeaveForRequeue):
        program.train(program.read_arguments([str(path), "--folder", str(path / "c"), *arguments]))


@pytest.fixture
def program() -> Any:
    spec = importlib.util.spec_from_file_location("train_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["train_program"] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


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
        checkpoint_names = _steps(tmp_path / "c")
        assert "step-00000002" not in checkpoint_names
    assert _steps(tmp_path / "c") == ["step-00000002-epoch-0001", "step-00000004-epoch-0002"]


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
    assert _steps(tmp_path / "c") == ["step-00000002"]
    assert list(iterator) == []
    with pytest.raises(LeaveForRequeue):
        next(epochs)
    assert _steps(tmp_path / "c") == ["step-00000002", "step-00000002-epoch-0001"]


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
    assert _steps(stopped / "c") == ["step-00000010-epoch-0001"]
    _train_here(program, stopped, "--epochs", "3")
    for name in ("end-0.json", "steps-0.jsonl"):
        assert (stopped / name).read_text() == (tmp_path / "straight" / name).read_text()


def test_in_a_job_making_one_marks_the_run_as_able_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner requeues only what can go on."""
    monkeypatch.setenv("HELPERS_RUN", str(tmp_path / "run"))
    Checkpointer({"n": 1})
    assert RunFolder(tmp_path / "run").checkpoints.is_dir()


def test_outside_a_job_a_new_run_is_begun_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two trials on a laptop must not go on from each other."""
    one, other = Checkpointer({"n": 1}), Checkpointer({"n": 1})
    assert one.folder != other.folder
    assert one.folder.parent.parent == tmp_path / "runs" / "local"
    assert f"folder={str(one.folder)!r}" in capsys.readouterr().err


def test_folder_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``restore`` tells the step to go on from, and writes into the mapping."""
    first = Checkpointer({"n": 0, "note": Note("a"), 3: (1,)}, folder=tmp_path / "c")
    assert first.restore() == 0
    first._state["n"] = 7
    first.step()
    first.save()
    state = {"n": 0, "note": Note("b"), 3: ()}
    second = Checkpointer(state, folder=tmp_path / "c")
    assert second.restore() == 1
    assert state == {"n": 7, "note": Note("a"), 3: (1,)}
    assert "resumed at step 1 (epoch 0)" in capsys.readouterr().err


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


def test_steps_counts_by_itself_or_by_step(tmp_path: Path) -> None:
    """Both spellings of a flat loop mean the same steps."""
    for name, calls in (("a", False), ("b", True)):
        checkpoint = Checkpointer({}, folder=tmp_path / name, save_every=2, keep=None)
        seen = []
        for step in checkpoint.steps(5):
            seen.append(step)
            if calls:
                checkpoint.step()
        assert seen == [0, 1, 2, 3, 4]
        assert _steps(tmp_path / name) == ["step-00000002", "step-00000004", "step-00000005"]
    again = Checkpointer({}, folder=tmp_path / "a", keep=None)
    assert list(again.steps(5)) == []
    assert list(again.steps(7)) == [5, 6]


def test_the_clock_says_when_to_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``save_every="10min"`` saves at the first step after ten minutes."""
    now = [0.0]
    monkeypatch.setattr("helpers.training.stop_agreement.time.monotonic", lambda: now[0])
    checkpoint = Checkpointer({}, folder=tmp_path / "c", save_every="10min", keep=None)
    for _ in checkpoint.steps(10):
        now[0] += 250
    assert _steps(tmp_path / "c") == ["step-00000003", "step-00000006", "step-00000009", "step-00000010"]


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
    assert _steps(run.checkpoints) == ["step-00000002"]


def test_the_newest_are_kept_with_the_best_and_the_one_resumed_from(tmp_path: Path) -> None:
    """Removing the only good copy is the classic fault of retention (torchtitan, verl #7952)."""
    folder = tmp_path / "c"
    first = Checkpointer({"n": 0}, folder=folder, save_every=1, keep=2)
    for step in first.steps(4):
        first._state["n"] = step
        first.keep_best(loss=abs(step - 1.0))
    assert _steps(folder) == ["step-00000003", "step-00000004"]
    assert Checkpointer.load(folder, "n", best=True) == 1
    second = Checkpointer({"n": 0}, folder=folder, save_every=1, keep=2)
    list(second.steps(9))
    assert _steps(folder) == ["step-00000004", "step-00000008", "step-00000009"]
    assert [path.name for path in folder.glob("best-*")] == ["best-step-00000001"]


def test_damaged_ones_do_not_count_among_those_kept(tmp_path: Path) -> None:
    """Three broken folders must not push out the last good one."""
    folder = tmp_path / "c"
    checkpoint = Checkpointer({}, folder=folder, save_every=1, keep=2)
    list(checkpoint.steps(2))
    (folder / "step-00000002" / "state.json").unlink()
    list(checkpoint.steps(3))
    assert _steps(folder) == ["step-00000001", "step-00000002", "step-00000003"]


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


def test_load_takes_a_job_a_run_a_folder_or_one_checkpoint(tmp_path: Path) -> None:
    """For evaluation and fine-tuning: plain tensors on the CPU, and nothing is changed."""
    model = nn.Linear(2, 1)
    checkpoint = Checkpointer({"model": model, "n": 3}, folder=tmp_path / "run" / "checkpoints")
    list(checkpoint.steps(1))
    job = type("Job", (), {"folder": tmp_path / "run"})()
    latest = checkpoint.latest()
    assert latest == tmp_path / "run" / "checkpoints" / "step-00000001"
    for source in (job, tmp_path / "run", str(tmp_path / "run" / "checkpoints"), latest):
        loaded = Checkpointer.load(source, "model")
        assert torch.equal(loaded["weight"], model.weight)
        assert Checkpointer.load(source)["n"] == 3
    with pytest.raises(InvalidRequest, match="has no 'modell'"):
        Checkpointer.load(job, "modell")
    with pytest.raises(InvalidRequest, match="There is no best checkpoint"):
        Checkpointer.load(job, "model", best=True)
    with pytest.raises(InvalidRequest, match="There is no folder"):
        Checkpointer.load(tmp_path / "nowhere", "model")


def test_a_new_start_does_not_overtake_old_checkpoints(tmp_path: Path) -> None:
    """Who forgets to restore would lose the run's history to retention."""
    list(Checkpointer({}, folder=tmp_path / "c").steps(3))
    with pytest.raises(InvalidRequest, match="none was restored"):
        Checkpointer({}, folder=tmp_path / "c").step()


def test_a_later_format_is_an_error_not_a_damage(tmp_path: Path) -> None:
    """A downgrade must not set aside every checkpoint of a lab."""
    list(Checkpointer({}, folder=tmp_path / "c").steps(1))
    path = tmp_path / "c" / "step-00000001"
    manifest = dataclasses.replace(read_manifest(path), format=2)
    (path / "MANIFEST.json").write_bytes(manifest.to_bytes())
    with pytest.raises(NewerFormat, match="has format 2; this version reads up to 1"):
        Checkpointer({}, folder=tmp_path / "c").restore()
    assert path.exists()


def test_what_cannot_be_kept_is_refused_at_once(tmp_path: Path) -> None:
    """Not after the first ten minutes."""
    with pytest.raises(InvalidRequest, match=r"state\.thing is a builtins\.object"):
        Checkpointer({"thing": object()}, folder=tmp_path / "c")
    with pytest.raises(InvalidRequest, match="keep must be at least 1"):
        Checkpointer({}, folder=tmp_path / "c", keep=0)


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
    assert _steps(tmp_path / "c") == ["step-00000001"]
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
    checkpoint._durable = None
    checkpoint._state["n"] = 2
    checkpoint.save()
    checkpoint.wait()
    for path in (tmp_path / "copy").iterdir():
        assert (tmp_path / "c" / "step-00000001" / path.name).read_bytes() == path.read_bytes()


def test_several_processes_without_a_group_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each would save over the other."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidRequest, match=r"with distributed\(\)"):
        Checkpointer({}, folder=tmp_path / "c")


def test_a_step_with_nothing_due_costs_microseconds(tmp_path: Path) -> None:
    """It stands in the innermost loop."""
    checkpoint = Checkpointer({"model": nn.Linear(9, 9)}, folder=tmp_path / "c")
    checkpoint.step()
    rounds: list[float] = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(1000):
            checkpoint.step()
        rounds.append((time.perf_counter() - begin) / 1000)
    assert min(rounds) < 20e-6


def test_the_state_may_hold_what_training_holds(tmp_path: Path) -> None:
    """Scheduler, scaler and averaged weights besides model and optimizer."""

    def make() -> dict[str, Any]:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return {
            "model": model,
            "optimizer": optimizer,
            "scheduler": torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5]),
            "scaler": torch.amp.GradScaler("cpu"),
            "ema": torch.optim.swa_utils.AveragedModel(model),
        }

    first = make()
    for _ in range(4):
        first["model"](torch.ones(2)).sum().backward()
        first["optimizer"].step()
        first["scheduler"].step()
        first["ema"].update_parameters(first["model"])
    checkpoint = Checkpointer(first, folder=tmp_path / "c")
    list(checkpoint.steps(1))
    second = make()
    Checkpointer(second, folder=tmp_path / "c").restore()
    assert second["scheduler"].state_dict() == first["scheduler"].state_dict()
    assert type(second["scheduler"].milestones) is type(first["scheduler"].milestones)
    assert second["scaler"].state_dict() == first["scaler"].state_dict()
    assert torch.equal(second["ema"].module.weight, first["ema"].module.weight)
    assert second["ema"].n_averaged == 4
