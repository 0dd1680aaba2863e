"""Submit the program of ``faults_program``, disturb it, and tell what was lost."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from tests.cluster.client import client_environment
from tests.slurm.faults_program import HELD_AT, PATIENCE_S, SAVE_EVERY, STEPS
from tests.slurm.processes import processes_of_jobs
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster import Cluster

ROOT = Path(__file__).parents[2]
RANKS = 2
WHOLE = sum(range(1, STEPS + 1))


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
        settings = {"processes": RANKS, "cpus": 1, "mem": "600M", "time": 30, "name": self.folder.name, **self.settings}
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.slurm.faults_program", str(self.folder), json.dumps(settings)],
                cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=said, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said()
        self.run = RunFolder(Path(line.strip()))
        return self

    def hold(self) -> None:
        """Return when every rank waits at step 13 and step 10 is durable."""
        saved = self.run.checkpoints / f"step-{SAVE_EVERY:08d}"
        wait_for(
            lambda: saved.is_dir() and all(self.recorded(rank)[-1:] == [(0, HELD_AT)] for rank in range(RANKS)),
            lambda: f"{self.folder.name} reaches step {HELD_AT}: {self.log()}",
            within_s=PATIENCE_S,
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

    def lose_node(self) -> None:
        """Take its node away, and give it back when nothing of the job is left there, as if it had been started anew.

        Earlier, Slurm would start the job on the node while it still runs there, and drain it ("Duplicate jobid"): as
        long as a ``slurmstepd`` of the job has its socket in slurmd's spool folder, and until slurmd has looked again.
        """
        node, job = self.node, self.job_id
        spool = self.cluster.folder / "spool" / node
        self.cluster.set_node_state(node, "DOWN")
        wait_for(
            lambda: not processes_of_jobs(self.cluster, job) and not any(spool.glob(f"{node}_{job}.*")),
            f"the processes of {self.folder.name} have left their node",
            within_s=PATIENCE_S,
        )
        self.cluster.stop_daemon("slurmd", node=node, how=signal.SIGKILL)
        self.cluster.set_node_state(node, "RESUME")
        self.cluster.start_daemon("slurmd", node=node)

    def kill(self, what: str) -> None:
        """Send SIGKILL to ``"rank"`` 1, to the ``"srun"`` above it, or to the ``"batch"`` shell above that."""
        job = self.job_id
        if what == "rank":
            os.kill(self.pid(1), signal.SIGKILL)
            return
        for process, _ in processes_of_jobs(self.cluster, job):
            if process.name() == "srun" and (shell := process.parent()) is not None and shell.name() != "srun":
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
        wait_for(
            lambda: len(self.ledger("end")) > attempt,
            lambda: f"{self.folder.name} ends: {self.log()}",
            within_s=PATIENCE_S,
        )

    def outcome(self) -> Outcome:
        """Wait for the end and return what came of it."""
        output = self.process.communicate(timeout=PATIENCE_S)[0]
        assert self.process.returncode == 0, output + self.said() + self.log()
        caller = pickle.loads((self.folder / "caller.pkl").read_bytes())
        return Outcome(
            **caller,
            steps=[self.recorded(rank) for rank in range(RANKS)],
            causes=[str(line["cause"]) for line in self.ledger("end")],
            ids={str(line["job_id"]) for line in self.ledger("start")},
            checkpoints=sorted(path.name for path in self.run.checkpoints.glob("step-*")),
            said=self.said(),
            log=self.log(),
            saved_at=next((line["step"] for line in self.ledger("end")), None),
        )

    def has_ended(self) -> bool:
        """Say whether its caller has got what it waited for."""
        return self.process.poll() is not None

    def abandon(self) -> None:
        """End its caller, if that still waits: nobody will ask what came of it."""
        if hasattr(self, "process"):
            with self.process:  # closes its pipe, and waits for its end
                self.process.kill()

    def said(self) -> str:
        """Return what its caller's process has printed for people so far."""
        return self._said.read_text()

    def log(self) -> str:
        """Return the batch log as far as it has come."""
        log = self.run.batch_log if hasattr(self, "run") else None
        return log.read_text() if log is not None and log.exists() else "no log"

    @property
    def _said(self) -> Path:
        return self.folder / "caller.err"


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
        log: The batch log.
        saved_at: The step that was durable at the end of the first attempt; None where there was none.
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
    log: str
    saved_at: int | None

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
