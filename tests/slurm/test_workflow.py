"""The generated project's workflow on a real Slurm: stopped in the middle, it goes on where it was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SNAKEMAKE = "snakemake==9.27.1"


@pytest.fixture
def digits(client: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A baked project, as a client of the cluster."""
    monkeypatch.setenv("HOME", str(client))
    cookiecutter = [Path(sys.executable).with_name("cookiecutter"), "--no-input", ROOT]
    subprocess.run(cookiecutter, check=True, capture_output=True, cwd=client)
    project = client / "digits"
    monkeypatch.setenv("PYTHONPATH", f"{project / 'src'}:{ROOT}")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the nodes have more CPUs by name than this machine has
    monkeypatch.delenv("PWD", raising=False)
    return project


def interrupt(command: list[str | Path], project: Path) -> str:
    """Start a command as a shell does, press Ctrl-C once its job runs, and return what was said."""
    said = project / "said"
    with said.open("w") as log:
        running = subprocess.Popen(command, cwd=project, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        wait_for(lambda: "attempt 0 runs on" in said.read_text() or running.poll() is not None)
        os.killpg(running.pid, signal.SIGINT)
        running.wait(timeout=120)
    return said.read_text()


def test_a_step_that_was_interrupted_takes_up_its_job(digits: Path) -> None:
    """Slurm goes on with the job while nobody looks; a second one would do the same work again."""
    command = [sys.executable, "-m", "digits", "train", "--epochs", "3", "--time", "10", "--once", "runs/trained.json"]
    assert " goes on; back to it" in interrupt(command, digits)
    assert not (digits / "runs" / "trained.json").exists()
    done = subprocess.run(command, cwd=digits, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
    (run,) = (digits / "runs" / "train").iterdir()
    assert json.loads((digits / "runs" / "trained.json").read_text()) == {"run": str(run)}
    assert not (digits / "runs" / "trained.json.job").exists()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_workflow_goes_on_where_it_was_stopped(digits: Path, tmp_path: Path) -> None:
    """From raw data to the model card, with one training, although Ctrl-C came while it ran."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "snakemake"], check=True)
    pip = [tmp_path / "snakemake" / "bin" / "python", "-m", "pip", "install", "--quiet", SNAKEMAKE]
    subprocess.run(pip, check=True, env={**os.environ, "PYTHONPATH": ""})
    snakemake = tmp_path / "snakemake" / "bin" / "snakemake"
    command = [snakemake, "--cores", "1", "--rerun-incomplete", "--config", "resources=--time 10 --epochs 8"]
    assert " goes on; back to it" in interrupt(command, digits)
    assert (digits / "data" / "processed" / "optdigits.npz").exists()
    assert not (digits / "reports").exists()
    again = subprocess.run(command, cwd=digits, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert len(list((digits / "runs" / "train").iterdir())) == 1
    assert "| accuracy on 368 test images |" in (digits / "reports" / "model_card.md").read_text()
    third = subprocess.run(command, cwd=digits, capture_output=True, text=True, check=True)
    assert "Nothing to be done" in third.stderr
