"""The handed cases C22 (a checkpoint cut in half) and C25 (a resumed run that is another run), step by step."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from helpers.runtime import stop
from helpers.training import Checkpointer
from helpers.training.checkpoints import saving
from helpers.training.checkpoints.saving import SaveFailed

ROOT = Path(__file__).parents[3]
MB = 1_000_000
FILES_OF_A_SAVE = 5  # the folder, the rank's own, the tensors, the rest of the state, the manifest

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can mount a disk; the limits in test_faults.py need no root"
)

SAVE_FOR_EVER = """
import sys, torch
from helpers.training import Checkpointer
state = {"x": torch.zeros(int(sys.argv[2]) // 4), "n": 0}
checkpoint = Checkpointer(state, folder=sys.argv[1], save_every=1, keep=2)
checkpoint.restore()
print("begun", flush=True)
while True:
    state["n"] += 1
    state["x"].fill_(state["n"])
    checkpoint.step()
    checkpoint.wait()
    print(state["n"], flush=True)
"""

TRAIN = """
import dataclasses, json, random, sys
import numpy as np
import torch
from helpers.training import Checkpointer, make_loader

@dataclasses.dataclass
class Seen:
    batches: int
    last: float

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        noise = random.random() + np.random.rand() + torch.rand(1).item()
        return index, torch.full((3,), index / 64 + 0.01 * noise)

folder, log, stop_after = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(1), np.random.seed(1), torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = make_loader(Samples(), batch_size=4, shuffle=True)
state = {"model": model, "optimizer": optimizer, "loader": loader, "seen": Seen(0, 0.0)}
checkpoint = Checkpointer(state, folder=folder)
for epoch in checkpoint.epochs(2):
    for indices, samples in loader:
        loss = model(samples).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state["seen"] = Seen(state["seen"].batches + 1, loss.item())
        with open(log, "a") as file:
            print(json.dumps([indices.tolist(), loss.item(), dataclasses.astuple(state["seen"])]), file=file)
        checkpoint.step()
        if state["seen"].batches == stop_after:
            checkpoint.save()
            checkpoint.wait()
            sys.exit(0)
"""


@pytest.fixture(autouse=True)
def outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stop, "_request", None)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def _loaded(folder: Path, size: int) -> int:
    """Load in this process; every value must be of one step."""
    state = {"x": torch.zeros(size // 4), "n": 0}
    step = Checkpointer(state, folder=folder).restore()
    (folder / "lease.json").unlink()  # this process goes on living
    assert bool((state["x"] == state["n"]).all())
    assert step == state["n"]
    return step


def _save(checkpoint: Checkpointer) -> None:
    checkpoint.save()
    checkpoint.wait()


@pytest.mark.parametrize(
    ("size", "kills"),
    [pytest.param(8 * MB, 3, id="8MB"), pytest.param(300 * MB, 10, id="300MB", marks=pytest.mark.full)],
)
def test_c22_a_kill_or_a_cut_while_saving_costs_no_finished_save(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, kills: int
) -> None:
    """A truncated file under the final name is picked as the latest elsewhere (pytorch-lightning #688, #19970)."""
    folder, finished = tmp_path / "c", 0
    for turn in range(kills):
        command = [sys.executable, "-c", SAVE_FOR_EVER, str(folder), str(size)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_environment()
        ) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(2)]
            try:
                process.wait(0.37 * turn % 1)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            said += process.stdout.readlines()
        finished = max([finished, *(int(line) for line in said if line.strip().isdigit())])
        assert _loaded(folder, size) >= finished
        finished = _loaded(folder, size)
        assert len(list(folder.iterdir())) <= 4  # temporary files do not pile up
    newest = max(folder.glob("step-????????"))
    os.truncate(newest / "state.safetensors", size // 2)
    capsys.readouterr()
    assert _loaded(folder, size) < finished
    assert newest.name in capsys.readouterr().err


@contextmanager
def _disk(folder: Path, limits: str) -> Iterator[Path]:
    """Give a real disk of its own, which is lost afterwards."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", limits, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@needs_root
@pytest.mark.parametrize("blind", [False, True], ids=["seen before", "met while writing"])
def test_c22_a_disk_that_is_full_raises_and_the_older_one_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, blind: bool
) -> None:
    """A real one, a small tmpfs; a quota is not seen before it is met."""
    with _disk(tmp_path / "disk", "size=12m") as disk:
        state = {"x": torch.ones(2 * MB), "n": 1}
        checkpoint = Checkpointer(state, folder=disk / "c")
        checkpoint.step()
        _save(checkpoint)
        checkpoint.step()
        if blind:
            usage = saving.shutil.disk_usage(disk)
            monkeypatch.setattr(saving.shutil, "disk_usage", lambda _: usage._replace(free=10**12))
        with pytest.raises(SaveFailed, match="No space left on device"):
            _save(checkpoint)
        assert sorted(path.name for path in (disk / "c").iterdir()) == ["lease.json", "step-00000001"]
        assert _loaded(disk / "c", 8 * MB) == 1


@needs_root
@pytest.mark.parametrize("free", range(FILES_OF_A_SAVE))
def test_a_disk_without_inodes_costs_no_finished_save_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], free: int
) -> None:
    """Many small files use a disk up while ``df -h`` shows room; any file of a save may be the one too many."""
    with _disk(tmp_path / "disk", "size=64m,nr_inodes=40") as disk:
        state = {"x": torch.ones(1000), "n": 1}
        checkpoint = Checkpointer(state, folder=disk / "c", save_every=1)
        checkpoint.step()
        checkpoint.wait()
        ballast = _use_up_inodes(disk)
        for file in ballast[:free]:
            file.unlink()
        for _ in range(2):
            checkpoint.step()
        checkpoint.wait()
        said = capsys.readouterr().err
        assert said.count("No space left on device for one more file: its 40 inodes are used up") == 1
        assert "training goes on; the older checkpoints are untouched" in said
        assert sorted(path.name for path in (disk / "c").iterdir()) == ["lease.json", "step-00000001"]
        assert Checkpointer.load(disk / "c", "n") == 1
        for file in ballast[free:]:
            file.unlink()
        checkpoint.step()
        checkpoint.wait()
        assert "checkpoints can be written again (step 4)" in capsys.readouterr().err
        assert (disk / "c" / "step-00000004").is_dir()


def _use_up_inodes(disk: Path) -> list[Path]:
    """Make empty files until there can be no more."""
    files = [disk / f"file-{number}" for number in range(os.statvfs(disk).f_favail)]
    for file in files:
        file.touch()
    return files


def test_c25_a_run_stopped_after_five_batches_is_the_same_run(tmp_path: Path) -> None:
    """The remaining samples and every loss, in a new process (accelerate #2823, transformers #40500)."""

    def train(name: str, stop_after: int) -> None:
        arguments = [str(tmp_path / name), str(tmp_path / f"{name}.jsonl"), str(stop_after)]
        subprocess.run(
            [sys.executable, "-c", TRAIN, *arguments], check=True, env=_environment(), stderr=subprocess.DEVNULL
        )

    train("straight", 0)
    train("resumed", 5)
    train("resumed", 0)
    straight, resumed = ((tmp_path / f"{name}.jsonl").read_text() for name in ("straight", "resumed"))
    assert resumed == straight
    second_epoch = [index for line in resumed.splitlines()[16:] for index in json.loads(line)[0]]
    assert sorted(second_epoch) == list(range(64))
