"""Give each test a folder with a small script, runs of its own, and a Slurm that holds its jobs."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from helpers.testing import FakeSlurm
from tests.gpu_driver.cards import cards  # noqa: F401 -- a fixture

SCRIPT = """
import sys
import time
print("imported")

def main(lr=0.1, layers=(), name: str = "", flag=None):
    print("training", flush=True)
    return {"lr": lr, "layers": layers, "name": name, "flag": flag}

def fail(lr):
    raise ValueError(f"lr is {lr}")

def nothing():
    pass

def sleep(seconds=60):
    print("asleep", flush=True)
    time.sleep(seconds)

def ranks():
    import os
    print("I am", os.environ["RANK"])

def _no_gpu():
    from helpers import HelpersError
    raise HelpersError("No GPU.", hint="Ask for one.")

NUMBER = 3
"""

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder; it holds ``script.py``."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    monkeypatch.setenv("HELPERS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "script", raising=False)
    return folder


@pytest.fixture
def command() -> Command:
    """Return a function that runs ``helpers`` with these words, in this process."""
    from helpers.cli.main import app

    return lambda *words: CliRunner().invoke(app, list(words))


@pytest.fixture
def slurm(fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Make this process a client of a cluster that starts no job before ``release_queue``."""
    fake_slurm.hold_queue()
    monkeypatch.setattr("helpers.submission.jobs.watcher.Watcher.watch", lambda *_: None)  # the command alone asks
    # there is no job whose word could be on its way
    monkeypatch.setattr("helpers.submission.jobs.settling.SETTLE_S", 0.2)
    return fake_slurm
