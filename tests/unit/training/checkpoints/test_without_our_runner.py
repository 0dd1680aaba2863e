"""Under a plain srun or torchrun a Checkpointer heeds the scheduler's signal by itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.training.checkpoints.manifest import check_whole

ROOT = Path(__file__).parents[4]
PROGRAM = """
import os, signal, sys, threading, time
import torch
from helpers.training import Checkpointer
if "own" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
checkpoint = Checkpointer({"x": torch.zeros(10**6)}, folder=sys.argv[1])
def storm():
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(0.001)
for step in checkpoint.steps(10**9):
    if step == 5:
        os.kill(os.getpid(), signal.SIGTERM)
        if "storm" in sys.argv:
            threading.Thread(target=storm, daemon=True).start()
    time.sleep(0.01)
"""


def _run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HELPERS_", "SLURM_"))}
    environment |= {"PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-c", PROGRAM, str(folder), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize("variables", [{"SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}, {"TORCHELASTIC_RUN_ID": "x"}])
def test_a_step_of_slurm_or_torchrun_saves_and_leaves(tmp_path: Path, variables: dict[str, str]) -> None:
    """The exit code is not 0: the training is not finished, and nobody of ours asks for the requeue."""
    done = _run(tmp_path, **variables)
    assert done.returncode == 1
    assert "is saved, leaving for the requeue" in done.stderr
    assert next(tmp_path.glob("step-*")).name >= "step-00000006"


def test_signals_that_go_on_during_the_save_harm_nothing(tmp_path: Path) -> None:
    """Slurm sends SIGTERM again at the end of the grace, and a user may be impatient."""
    done = _run(tmp_path, "storm", SLURM_STEP_ID="0", SLURM_PROCID="0")
    assert done.returncode == 1
    [path] = tmp_path.glob("step-*")
    assert check_whole(path).step >= 6


def test_a_handler_of_ones_own_is_left_alone(tmp_path: Path) -> None:
    """Who has seen to it already knows better."""
    assert _run(tmp_path, "own", SLURM_STEP_ID="0", SLURM_PROCID="0").returncode == 5


def test_at_a_desk_sigterm_ends_a_script_as_ever(tmp_path: Path) -> None:
    """Nobody will restart it."""
    assert _run(tmp_path).returncode == -signal.SIGTERM
