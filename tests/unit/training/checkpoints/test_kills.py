"""A process that is killed while it saves leaves a whole checkpoint."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.training import Checkpointer
from tests.unit.training.checkpoint_fixtures import in_child, outside_a_job, restored, three_checkpoints  # noqa: F401 -- a fixture

ROOT = Path(__file__).parents[4]
SAVE_FOR_EVER = """
import sys, torch
from helpers.training import Checkpointer
state = {"x": torch.zeros(200_000), "n": 0}
checkpoint = Checkpointer(state, folder=sys.argv[1], save_every=1, keep=2)
for step in checkpoint.steps(10**6):
    state["n"] += 1
    state["x"].fill_(state["n"])
    print(step, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three checkpoints, of the values 1, 2 and 3."""
    return three_checkpoints(tmp_path / "c")


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """torch.save over the only copy was unloadable at 3 of 8 such moments, DCP at 6 of 8."""
    chance = random.Random(2)  # noqa: S311 -- nor when
    done = -1
    for turn in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOR_EVER, str(tmp_path / "c")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        for _ in range(3 if turn == 0 else 1):  # before the first is on the disk there is nothing to find
            process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.08))
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        found = restored(tmp_path / "c")
        finished = int(lines[-1]) if lines else 0
        assert found >= max(finished - 1, done)  # step n is printed when n is being saved, and n-1 is
        done = found
        assert len(list((tmp_path / "c").iterdir())) <= 5  # temporary files do not pile up


def test_a_kill_at_each_system_call_of_a_save_leaves_the_older_one(folder: Path, tmp_path: Path) -> None:
    """A sweep over every call that changes the disk, in a process that dies there."""
    died = 0
    for number in range(100):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(folder, copy)
        code = in_child(_save_and_die, copy, number)
        assert restored(copy) in {3, 4}
        shutil.rmtree(copy)
        if code == 0:  # it got through
            break
        assert code == -signal.SIGKILL
        died += 1
    assert died > 10
    assert code == 0


def _save_and_die(folder: Path, number: int) -> None:
    _die_at_call(number)
    state = {"x": torch.full((50,), 3.0), "n": 3}
    checkpoint = Checkpointer(state, folder=folder)
    checkpoint.restore()
    state["n"] = 4
    state["x"].fill_(4)
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()


def _die_at_call(number: int) -> None:
    """Kill this process at its ``number``-th call of these functions, before it takes effect."""
    left = number

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: Any) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or event in {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}:
            count()

    real = os.fsync
    os.fsync = lambda descriptor: (count(), real(descriptor))[1]
    sys.addaudithook(hook)
