"""Submit the program of ``faults_program``, disturb it, and tell what was lost."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from helpers.runtime.run_folder import RunFolder
from helpers.runtime.status import read_ledger
from tests.cluster.client import client_environment
from tests.slurm.faults_program import HELD_AT, PATIENCE_S, SAVE_EVERY, STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster import Cluster

ROOT = Path(__file__).parents[2]
RANKS = 2
WHOLE = sum(range(1, STEPS + 1))


def wait_for(what: Callable[[], object], doing: str, *, within_s: float = PATIENCE_S) -> None:
    """Return when ``what`` is true."""
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, f"that did not happen in time: {doing}"
        time.sleep(0.1)


@dataclass
class Disturbed:
    """One job of the program, with the process that submitted it."""

    cluster: Cluster
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    def start(self) -> Disturbed:
        """Submit it, and return when it has an id."""
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **client_environment(),
            **self.cluster.environment,
            "PYTHONPATH": str(ROOT),
            "HELPERS_ALLOW_CPU": "1",
            "OMP_NUM_THREADS": "1",
        }
        settings = {"processes": RANKS, "cpus": 1, "mem": "600M", "time": 10, "name": self.folder.name, **self.settings}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.slurm.faults_program", str(self.folder), json.dumps(settings)],
            cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.run = RunFolder(Path(line.strip()))
        return self

    def hold(self) -> None:
        """Return when every rank waits at step 13 and step 10 is durable."""
        saved = self.run.checkpoints / f"step-{SAVE_EVERY:08d}"
        wait_for(
            lambda: saved.is_dir() and all(self.recorded(rank)[-1:] == [(0, HELD_AT)] for rank in range(RANKS)),
            f"{self.folder.name} reaches step {HELD_AT}: {self._story()}",
        )

    def release(self) -> None:
        """Let it go on without being asked to stop."""
        (self.folder / "release").touch()

    def recorded(self, rank: int = 0) -> list[tuple[int, int]]:
        """Return (attempt, step) of each step that a rank began."""
        file = self.folder / f"steps-{rank}"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(attempt), int(step)) for _, attempt, step in (line.split() for line in lines)]

    def pid(self, rank: int) -> int:
        """Return the process id of a rank's first attempt."""
        return int((self.folder / f"pid-0-{rank}").read_text())

    def preempt(self) -> None:
        """Let a job of a higher partition take the node's GPUs."""
        self.cluster.run(
            "sbatch", "--partition=gpu", "--gpus-per-node=a100:4", f"--nodelist={self.node}", "--output=/dev/null",
            "--wrap=sleep 1",
        )  # fmt: skip

    def kill(self, what: str) -> None:
        """Send SIGKILL to ``"rank"`` 1, to the ``"srun"`` above it, or to the ``"batch"`` shell above that."""
        job = self.job_id
        if what == "rank":
            os.kill(self.pid(1), signal.SIGKILL)
            return
        for process in psutil.process_iter(["name", "environ"]):
            environment = process.info["environ"] or {}
            if process.info["name"] != "srun" or environment.get("SLURM_JOB_ID") != job:
                continue
            shell = process.parent()
            if environment["SLURM_CONF"] == self.cluster.environment["SLURM_CONF"] and shell.name() != "srun":
                (shell if what == "batch" else process).kill()
                return
        raise AssertionError(f"no srun of job {job} runs here")

    @property
    def job_id(self) -> str:
        """The scheduler's id."""
        return str(self.ledger("start")[0]["job_id"])

    @property
    def node(self) -> str:
        """The node of the first attempt."""
        return str(self.ledger("start")[0]["nodes"])

    def ledger(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of the ledger."""
        return [line for line in read_ledger(self.run) if line["event"] == event]

    def wait_for_end(self, attempt: int = 0) -> None:
        """Return when an attempt has ended, as far as the run folder tells."""
        wait_for(lambda: len(self.ledger("end")) > attempt, f"{self.folder.name} ends: {self._story()}")

    def outcome(self) -> Outcome:
        """Wait for the end and return what came of it."""
        output, errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, output + errors + self._story()
        caller = pickle.loads((self.folder / "caller.pkl").read_bytes())
        return Outcome(
            **caller,
            steps=[self.recorded(rank) for rank in range(RANKS)],
            causes=[str(line["cause"]) for line in self.ledger("end")],
            ids={str(line["job_id"]) for line in self.ledger("start")},
            checkpoints=sorted(path.name for path in self.run.checkpoints.glob("step-*")),
            said=errors,
        )

    def _story(self) -> str:
        log = self.run.batch_log if hasattr(self, "run") else None
        return log.read_text() if log is not None and log.exists() else "no log"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a disturbed job.

    Args:
        error: What ``Job.exception`` gave.
        value: What ``Job.result`` gave.
        state: The job's state for its caller.
        id: Its last id.
        attempt: Its last attempt.
        steps: For each rank, the (attempt, step) of the steps that were begun.
        causes: Why each attempt ended.
        ids: The scheduler's ids that it had.
        checkpoints: What is there afterwards.
        said: What the caller's process printed.
    """

    error: BaseException | None
    value: int | None
    state: str
    id: str
    attempt: int
    steps: list[list[tuple[int, int]]]
    causes: list[str]
    ids: set[str]
    checkpoints: list[str]
    said: str

    @property
    def attempts(self) -> list[int]:
        """The attempts that trained."""
        return sorted({attempt for rank in self.steps for attempt, _ in rank})

    @property
    def lost(self) -> list[int]:
        """For each rank, how many steps were begun a second time."""
        return [len(rank) - len({step for _, step in rank}) for rank in self.steps]

    @property
    def in_order(self) -> bool:
        """Whether in no rank an earlier attempt did anything after a later one had begun."""
        return all(rank == sorted(rank) for rank in self.steps)
