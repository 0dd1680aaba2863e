"""The Checkpointer in one process: its loops, its folder, what it takes and refuses."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from helpers.errors import InvalidRequest
from helpers.runtime.run.folder import RunFolder
from helpers.training import Checkpointer
from helpers.training.checkpoints.manifest import NewerFormat, read_manifest
from tests.unit.training.checkpoint_fixtures import outside_a_job, steps_in  # noqa: F401 -- a fixture


@dataclasses.dataclass
class Note:
    text: str


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
        assert steps_in(tmp_path / name) == ["step-00000002", "step-00000004", "step-00000005"]
    again = Checkpointer({}, folder=tmp_path / "a", keep=None)
    assert list(again.steps(5)) == []
    assert list(again.steps(7)) == [5, 6]


def test_the_clock_says_when_to_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``save_every="10min"`` saves at the first step after ten minutes."""
    now = [0.0]
    monkeypatch.setattr("helpers.training.checkpoints.stop_agreement.time.monotonic", lambda: now[0])
    checkpoint = Checkpointer({}, folder=tmp_path / "c", save_every="10min", keep=None)
    for _ in checkpoint.steps(10):
        now[0] += 250
    assert steps_in(tmp_path / "c") == ["step-00000003", "step-00000006", "step-00000009", "step-00000010"]


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


def test_the_state_may_be_filled_after_making_one(tmp_path: Path) -> None:
    """One that is made before the model is built lets a job go on that is stopped meanwhile."""
    for steps in (2, 5):
        state: dict[str, Any] = {}
        checkpoint = Checkpointer(state, folder=tmp_path / "c")
        state["seen"] = 0
        for _ in checkpoint.steps(steps):
            state["seen"] += 1
        assert state["seen"] == steps


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
    with pytest.raises(InvalidRequest, match="keep must be at least 2"):
        Checkpointer({}, folder=tmp_path / "c", keep=1)
    with pytest.raises(InvalidRequest, match=r"state is a mapping from names(.|\n)*got a Linear"):
        Checkpointer(torch.nn.Linear(1, 1), folder=tmp_path / "c")  # type: ignore[arg-type]
    tree: dict[str, Any] = {"children": []}
    tree["children"].append({"parent": tree})
    with pytest.raises(InvalidRequest, match="contains itself"):
        Checkpointer({"tree": tree}, folder=tmp_path / "c")


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
