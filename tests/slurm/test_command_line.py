"""``helpers`` on a real Slurm: its commands agree with each other and with the queue."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.waiting import wait_for

SCRIPT = """
import os
import time

def ranks(factor=1):
    print("rank", os.environ["RANK"], "sees", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
    return factor * int(os.environ["WORLD_SIZE"])

def fail(lr):
    raise ValueError(f"lr is {lr}")

def sleep(seconds=300):
    print("asleep", flush=True)
    time.sleep(seconds)
"""

Command = Callable[..., Result]


@pytest.fixture
def command(client: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs ``helpers`` in a folder with a small script, as a client of the cluster."""
    from helpers.cli.main import app

    (client / "on_slurm.py").write_text(SCRIPT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "on_slurm", raising=False)
    return lambda *words: CliRunner().invoke(app, list(words))


def look(command: Command, job: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(command("status", job, "--json").stdout)[0]
    return record


def state_by_slurm(job: str) -> str:
    shown = subprocess.run(["scontrol", "-o", "show", "job", job], capture_output=True, text=True, check=True).stdout
    return shown.partition("JobState=")[2].split()[0]


def test_submit_status_logs_cancel_agree(command: Command) -> None:
    """One job through the four commands, by nothing but the id on stdout."""
    submitted = command("submit", "on_slurm:sleep", "--gpus", "a100:1", "--time", "5min", "--name", "nap")
    job = submitted.stdout.strip()
    assert job.isdecimal()
    wait_for(lambda: "asleep" in command("logs", job, "--rank", "0").stdout)

    running = look(command, job)
    assert (running["name"], running["state"], running["attempt"]) == ("nap", "RUNNING", 0)
    assert running["submission"]["resources"]["gpus"] == "a100:1"
    assert state_by_slurm(job) == "RUNNING"

    assert command("cancel", job).stdout == f"{job} is asked to end\n"
    wait_for(lambda: look(command, job)["state"] == "CANCELLED")
    wait_for(lambda: state_by_slurm(job) == "CANCELLED")  # it is COMPLETING for a moment
    assert command("logs", "-f", job).exit_code == 1
    assert command("cancel", job).stdout == f"{job} has ended before: CANCELLED\n"


def test_follow_brings_the_log_and_the_value_of_a_job_with_gpus(command: Command) -> None:
    """What a person types first on a cluster."""
    done = command("submit", "on_slurm:ranks", "factor=10", "--gpus", "2", "--time", "5min", "--follow")
    assert done.stdout == "rank 0 sees 0,1\n20\n"
    assert done.exit_code == 0


def test_a_failure_on_a_node_shows_its_traceback_here(command: Command) -> None:
    """The exit code is the shell's way to see it, the traceback a person's."""
    done = command("submit", "on_slurm:fail", "lr=7", "--time", "5min", "--wait")
    assert done.exit_code == 1
    assert 'on_slurm.py", line 10, in fail' in done.stderr
    assert "raised ValueError: lr is 7" in done.stderr
    table = command("status").stdout
    assert "FAILED" in table
    assert "ValueError: lr is 7" in table


def test_a_waiting_job_says_why(command: Command) -> None:
    """More GPUs than are free: the table holds Slurm's reason, and a cancel needs no run."""
    blocked = command("submit", "on_slurm:sleep", "--slurm", "begin=now+1hour").stdout.strip()
    wait_for(lambda: look(command, blocked)["reason"] == "BeginTime")
    assert look(command, blocked)["state"] == "PENDING"
    command("cancel", blocked)
    wait_for(lambda: look(command, blocked)["state"] == "CANCELLED")


def test_slurms_refusal_is_shown_and_nothing_is_left(command: Command, tmp_path: Path) -> None:
    """The sentence is Slurm's own; a run that was never queued is no run."""
    done = command("submit", "on_slurm:sleep", "--slurm", "reservation=nowhere")
    assert done.exit_code == 3
    assert "Requested reservation is invalid" in done.stderr
    assert list((tmp_path / "runs" / "sleep").iterdir()) == []
