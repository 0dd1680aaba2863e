"""The task that submits for the debugger keeps its promise: an editor attaches, and its breakpoint stops the job."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import attach
from tests.slurm.debug_client import DebugClient

ROOT = Path(__file__).resolve().parents[2]
DEBUGPY = "debugpy==1.8.22"
PATIENCE_S = 180


def task(project: Path, label: str) -> str:
    """Return the command line of a task of VS Code, as a job without a GPU."""
    tasks = json.loads((project / ".vscode" / "tasks.json").read_text())["tasks"]
    (command,) = [one["command"] for one in tasks if one["label"] == label]
    return str(command).replace("${input:resources}", "--time 10")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def line_of(file: Path, text: str) -> int:
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_breakpoint_stops_the_job(client: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job of any other task runs a copy of the files, in which no breakpoint of the editor is."""
    monkeypatch.setenv("HOME", str(client))
    cookiecutter = [Path(sys.executable).with_name("cookiecutter"), "--no-input", ROOT]
    subprocess.run(cookiecutter, check=True, capture_output=True, cwd=client)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path / "debugger", DEBUGPY]
    subprocess.run(pip, check=True)
    project, port = client / "digits", free_port()
    monkeypatch.chdir(project)
    monkeypatch.delenv("PWD", raising=False)
    monkeypatch.setenv("PYTHONPATH", f"{project / 'src'}:{ROOT}:{tmp_path / 'debugger'}")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = f"{task(project, 'submit for the debugger').replace('5678', str(port))} --epochs 2"
    submitted = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    job = attach(submitted.stdout.strip())
    file = project / "src" / "digits" / "train.py"
    line = line_of(file, "optimizer.step()")
    with DebugClient(port, timeout_s=PATIENCE_S) as debugger:
        debugger.attach(file, line)
        assert debugger.stopped_at() == ("train", str(file), line)
        debugger.detach()
    assert job.result(PATIENCE_S) == 0
