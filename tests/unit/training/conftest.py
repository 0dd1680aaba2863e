"""Start the processes of a run as the runner would, and read what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.runtime.run.folder import RunFolder
from tests.gpu_driver.cards import cards  # noqa: F401 -- a fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.training.hosts import Host

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[3]
_PATIENCE_S = 240  # torch alone takes a minute to import on a machine that others keep busy


@dataclass
class StartedRun:
    """One run with its folder, started as often as a test likes."""

    path: Path
    world_size: int

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "logs").mkdir(exist_ok=True)

    @property
    def folder(self) -> RunFolder:
        """The run folder with its named files."""
        return RunFolder(self.path)

    def begin(
        self, program: str, *arguments: str, hosts: tuple[Host, ...] = (), **variables: str
    ) -> list[subprocess.Popen[str]]:
        """Start one attempt, here or shared out among hosts; return its processes in the order of ranks."""
        attempt = self.folder.begin_attempt()
        processes = []
        on_each = self.world_size // max(1, len(hosts))
        for rank in range(self.world_size):
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": os.environ.get("HOME", "/"),
                "PYTHONPATH": str(ROOT),
                "PYTHONWARNINGS": "default",
                "OMP_NUM_THREADS": "1",
                "HELPERS_RUN": str(self.path),
                "HELPERS_ATTEMPT": str(attempt),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank % on_each),
                "WORLD_SIZE": str(self.world_size),
                "LOCAL_WORLD_SIZE": str(on_each),
                **variables,
            }
            command = [sys.executable, str(PROGRAMS / program), *arguments]
            if hosts:
                command = hosts[rank // on_each].command(*command)
            log = (self.path / "logs" / f"{attempt}-{rank}.log").open("w")
            processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True, cwd=self.path)
            )
            log.close()
        return processes

    def run(self, program: str, *arguments: str, hosts: tuple[Host, ...] = (), **variables: str) -> list[int]:
        """Start one attempt and return the exit codes."""
        return self.end(self.begin(program, *arguments, hosts=hosts, **variables))

    def end(self, processes: list[subprocess.Popen[str]]) -> list[int]:
        """Wait for an attempt and return the exit codes."""
        try:
            return [process.wait(_PATIENCE_S) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def logs(self) -> str:
        """Return all that was printed."""
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted((self.path / "logs").glob("*.log")))

    def train(self, *arguments: str) -> list[int]:
        """Run ``train.py`` for one attempt, with results in the run folder."""
        return self.run("train.py", str(self.path), *arguments)

    def steps(self, rank: int = 0) -> list[dict[str, Any]]:
        """Return what ``train.py`` logged for each step, over all attempts."""
        return [json.loads(line) for line in (self.path / f"steps-{rank}.jsonl").read_text().splitlines()]

    def ends(self) -> list[dict[str, Any]]:
        """Return what each rank wrote at its end."""
        return [json.loads((self.path / f"end-{rank}.json").read_text()) for rank in range(self.world_size)]


@pytest.fixture(scope="session")
def run_class() -> type[StartedRun]:
    """Return the class, for tests that choose the folder themselves."""
    return StartedRun


@pytest.fixture
def start_run(tmp_path: Path) -> Callable[..., StartedRun]:
    """Return a maker of runs: ``start_run("a", 4)``."""
    return lambda name, world_size=1: StartedRun(tmp_path / name, world_size)
