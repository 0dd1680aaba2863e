"""What is damaged on the disk is never loaded, and nothing half done looks like a checkpoint."""

import os
import random
import shutil
from pathlib import Path

import pytest
import torch

from helpers.training import Checkpointer
from helpers.training.checkpoints import storage
from helpers.training.checkpoints.loading import read_whole
from helpers.training.checkpoints.storage import CheckpointFolder, NoWholeCheckpoint
from tests.unit.training.checkpoint_fixtures import names_in, outside_a_job, restored, three_checkpoints  # noqa: F401 -- a fixture


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three checkpoints, of the values 1, 2 and 3."""
    return three_checkpoints(tmp_path / "c")


def _newest(folder: Path) -> str:
    found = CheckpointFolder(folder).newest_whole(read_whole, set_aside=False)
    assert found is not None
    return found[0].name


def test_any_flipped_bit_makes_it_fall_back_to_the_one_before(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hundreds of bits in every file, the manifest too: wrong data is never loaded."""
    chance = random.Random(1)  # noqa: S311 -- which bits does not matter
    for path in sorted((folder / "step-00000003").iterdir()):
        good = path.read_bytes()
        for _ in range(100):
            bad = bytearray(good)
            bit = chance.randrange(len(bad) * 8)
            bad[bit // 8] ^= 1 << bit % 8
            path.write_bytes(bad)
            assert _newest(folder) == "step-00000002", (path.name, bit)
        path.write_bytes(good)
        assert _newest(folder) == "step-00000003"
    assert "is damaged; an older one is looked for" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "rank-00000.json", "MANIFEST.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "swapped", "longer"])
def test_a_damaged_one_is_named_and_set_aside(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    """The run goes on from the one before, loudly."""
    path = folder / "step-00000003" / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "swapped":
        shutil.copy(folder / "step-00000002" / name, path)
    else:
        path.write_bytes({"cut": data[:-1], "empty": b"", "longer": data + b" "}[damage])
    assert restored(folder) == 2
    assert "step-00000003" in capsys.readouterr().err
    assert len(list(folder.glob("broken-step-00000003-*"))) == 1
    assert not (folder / "step-00000003").exists()


def test_if_all_are_damaged_it_refuses_again_and_again(folder: Path) -> None:
    """Training must never begin anew in silence, not even at the second try."""
    for path in folder.glob("step-*/state.safetensors"):
        os.truncate(path, 10)
    for _ in range(2):
        with pytest.raises(NoWholeCheckpoint, match="To begin anew on purpose: mv"):
            Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder).restore()


def test_a_folder_that_was_renamed_is_not_believed(folder: Path) -> None:
    """Its manifest says which step it is."""
    (folder / "step-00000003").rename(folder / "step-00000009")
    assert restored(folder) == 2


def test_everything_is_on_the_disk_before_it_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, then their folder, then the rename, then the parent: else a power cut leaves an empty shell."""
    events: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name.split('.tmp-')[0]}")
        real_fsync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        events.append(f"rename {target.name}")
        return real_rename(path, target)

    checkpoint = Checkpointer({"x": torch.zeros(2)}, folder=tmp_path / "c")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    assert events == [
        "sync rank-00000.json",
        "sync state.safetensors",
        "sync state.json",
        "sync MANIFEST.json",
        "sync step-00000001",
        "rename step-00000001",
        "sync c",
    ]


def test_a_removal_that_is_interrupted_leaves_nothing_that_looks_like_a_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder loses its name before it loses its files."""
    monkeypatch.setattr(storage.shutil, "rmtree", lambda *_a, **_k: None)
    checkpoint = Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder, save_every=1, keep=2)
    checkpoint.restore()
    checkpoint.step()
    checkpoint.wait()
    assert [name for name in names_in(folder) if name.startswith("step-")] == ["step-00000003", "step-00000004"]
