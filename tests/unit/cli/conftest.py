"""Give each test a folder with a small script, runs of its own, and a Slurm made of shell scripts."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from helpers.errors import ClusterUnreachable
from helpers.submission import slurm_cluster
from helpers.submission.slurm_cluster import SlurmCluster
from helpers.submission.slurm_queue import _STATES, Observation

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


@dataclass
class FakeSlurm:
    """A cluster that takes every job, runs none, and says of them what a test wants."""

    folder: Path
    known: dict[str, Observation] = field(default_factory=dict)
    questions: list[list[str]] = field(default_factory=list)
    is_silent: bool = False

    def says(self, **states: tuple[str, str]) -> None:
        """Let it know these jobs: ``job_1=("PENDING", "Priority")``, in Slurm's words."""
        self.known = {
            name.removeprefix("job_"): Observation(state=_STATES[word], word=word, reason=reason)
            for name, (word, reason) in states.items()
        }

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Stand for ``squeue`` and ``sacct``."""
        self.questions.append(sorted(job_ids))
        if self.is_silent:
            raise ClusterUnreachable("squeue: Unable to contact slurm controller", hint="sinfo")
        return {job_id: self.known[job_id] for job_id in self.questions[-1] if job_id in self.known}

    def install(self, name: str, body: str) -> None:
        """Make a command, which notes how it is called."""
        file = self.folder / name
        file.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.folder}/calls\n{body}\n')
        file.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        """Return how a command has been called."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Make this process a client of a cluster of shell scripts."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = FakeSlurm(folder)
    start = "sbatch: Job 1 to start at 2030-01-02T03:04:05 using 1 processors on nodes n1 in partition p"
    fake.install(
        "sbatch",
        f"case $1 in --test-only) echo '{start}' >&2; exit;; esac\necho x >> {folder}/ids; wc -l < {folder}/ids",
    )
    fake.install("scancel", "true")
    fake.install("scontrol", "echo 'ClusterName = fake'")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setattr(slurm_cluster, "current_inventory", lambda _conf: SimpleNamespace(cluster="fake"))
    monkeypatch.setattr(SlurmCluster, "settle", lambda _self, request: request.settle())
    monkeypatch.setattr("helpers.submission.slurm_queue.observe", fake.observe)
    monkeypatch.setattr("helpers.submission.watcher.Watcher.watch", lambda *_: None)  # no job here ever ends
    monkeypatch.setattr("helpers.cli.runs._SETTLE_S", 0.2)  # there is no job whose word could be on its way
    return fake
