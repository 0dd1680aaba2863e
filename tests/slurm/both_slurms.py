"""The real Slurm and the fake, as a client sees them, with the same scenario for both."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.testing import FakeSlurm, Partition, Settings
from tests.cluster import Cluster
from tests.cluster.client import foreign_variables
from tests.waiting import wait_for

PATIENCE_S = 150
STEP_ENDS = re.compile(r"srun: Job step aborted|slurmstepd: error: \*\*\* STEP ")
QUEUE = "JobArrayID:|,State:|,Reason:|,exit_code:|"
AS_THE_REAL_ONE = Settings(
    kill_wait_s=5,
    partitions=(
        Partition(name="gpu", is_default=True),
        Partition(name="low", priority_tier=1, is_preemptible=True),
        Partition(name="gpu:interactive", max_time_min=30, default_time_min=10),
        Partition(name="whole", exclusive=True),
    ),
)


class Slurm:
    """One of the two, as a client of it sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str, **variables: str) -> tuple[int, str, str]:
        """Return exit code, output and errors, without what differs between any two clusters."""
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=self.folder, env=os.environ | variables
        )
        return done.returncode, plain(done.stdout), plain(done.stderr)

    def sbatch(self, script: str, *options: str) -> str:
        """Submit a shell script; return its id."""
        file = self.folder / "job.sh"
        file.write_text(f"#!/bin/bash\n{script}\n")
        words = ["sbatch", "--parsable", f"--output={self.folder}/log-%j", "--open-mode=append", *options, str(file)]
        return subprocess.run(words, capture_output=True, text=True, check=True, cwd=self.folder).stdout.strip()

    def rows(self, *jobs: str) -> list[list[str]]:
        """Return id, state, reason and exit code of jobs; ids are counted from the first one's."""
        words = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={','.join(jobs)}", f"--Format={QUEUE}"]
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        return sorted(relative(line.split("|")[:-1], int(jobs[0])) for line in lines)

    def wait(self, job: str, *states: str) -> None:
        """Wait for a state of every element."""
        wait_for(
            lambda: all(row[1] in states for row in self.rows(job)),
            lambda: f"{job} is {states}; it is {self.rows(job)}",
            within_s=PATIENCE_S,
        )

    def accounted(self, *words: str) -> tuple[int, str, str]:
        """Return what ``sacct`` answers once it knows of the end: accounting follows."""

        def answer() -> tuple[int, str, str] | None:
            done = self.run(*words)
            return None if not done[1] or "RUNNING" in done[1] or "PENDING" in done[1] else done

        return wait_for(answer, "the accounting knows of the end") or (1, "", "")

    def log(self, job: str) -> str:
        return plain((self.folder / f"log-{job}").read_text())


class Log:
    """The lines of a job's log, to be compared with those of another such log.

    That a step is being ended is said through its ``srun``, which may have ended before it hears of it: of the lines
    that say so, one of two equal logs may lack some.
    """

    def __init__(self, text: str) -> None:
        lines = [line for line in text.splitlines() if "Force Terminated" not in line]
        self.certain = sorted(line for line in lines if not STEP_ENDS.match(line))
        self.step_ends = Counter(line for line in lines if STEP_ENDS.match(line))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        few, many = sorted((self.step_ends, other.step_ends), key=Counter.total)
        return self.certain == other.certain and few <= many

    __hash__ = None  # type: ignore[assignment]  # equal logs may differ

    def __repr__(self) -> str:
        return "\n".join([*self.certain, *sorted(self.step_ends.elements())])


def relative(row: list[str], first: int) -> list[str]:
    number, _, task = row[0].partition("_")
    return [f"{int(number) - first}{'_' + task if task else ''}", *row[1:]]


def plain(text: str) -> str:
    """Return what a command prints without node names, ids, dates and the number of slurmstepd's node."""
    text = re.sub(r"\b[a-z]{5}-(gpu|ctl)", r"\1", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"slurmstepd-gpu\d", "slurmstepd", text)
    text = re.sub(r"\bgpu\d\b", "gpuN", text)
    text = re.sub(r"\b(JOB|STEP|StepId=|[Jj]ob) ?\d+", r"\1 N", text)
    return re.sub(r"^\d+$", "N", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeSlurm]:
    """One fake for the module, as large as the real one."""
    with FakeSlurm(AS_THE_REAL_ONE) as slurm:
        yield slurm


@pytest.fixture
def both(
    fake: FakeSlurm, cluster_with: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Return a function that runs a scenario on the real one and on the fake, and returns both answers."""

    def run(scenario: Any) -> tuple[Any, Any]:
        answers = []
        for name, environment in (("real", cluster_with().environment), ("fake", fake.environment)):
            with monkeypatch.context() as patch:
                for variable in foreign_variables():
                    patch.delenv(variable)
                for variable, value in environment.items():
                    patch.setenv(variable, value)
                folder = tmp_path / name
                folder.mkdir()
                patch.chdir(folder)
                patch.setenv("PWD", str(folder))
                answers.append(scenario(Slurm(folder)))
        return answers[0], answers[1]

    yield run
    for variable in [{}, fake.environment]:
        subprocess.run(["scancel", "--me"], env=os.environ | variable, capture_output=True, check=False)
