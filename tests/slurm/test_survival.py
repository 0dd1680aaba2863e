"""The baked project is stopped in the middle, and ends as if nothing had happened."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from helpers import attach
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from helpers.training import Checkpointer
from tests.cluster.client import client_environment
from tests.slurm.disturbances import SETTINGS
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster import Cluster
    from tests.slurm.conftest import ClusterWith

TEMPLATE = Path(__file__).parents[2]
RANKS = 4
EPOCHS = 6

# Trains the project's own train() and writes down each step that is counted, so that a repeated one shows.
RECORDED = """
import os
import time
from pathlib import Path

from helpers import current_run
from helpers.training import Checkpointer


def train_and_record(config, steps_folder):
    from digits.train import train

    run, count = current_run(), Checkpointer.step

    def step(self):
        with (Path(steps_folder) / f"rank-{run.rank}").open("a") as file:
            file.write(f"{run.attempt} {self._step + 1}\\n")
        if run.attempt == 0:
            time.sleep(float(os.environ.get("SLOW_FIRST_ATTEMPT_S", "0")))
        count(self)

    Checkpointer.step = step
    return train(config)
"""

SUBMIT = """
import json, sys
from recorded import train_and_record
from digits.config import Config
from helpers import submit

steps, epochs, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
job = submit(train_and_record, Config(epochs=epochs), steps, gpus=4, cpus=1, name="survival", **settings)
print(job.folder, flush=True)
print(job.result(timeout=400))
"""


@dataclass(frozen=True)
class Training:
    """A training that was submitted from a process of its own."""

    process: subprocess.Popen[str]
    folder: Path
    steps: Path
    value: list[float] = field(default_factory=list)

    def recorded(self, rank: int = 0) -> list[tuple[int, int]]:
        """Return (attempt, step) as the rank counted them, the one under way included."""
        file = self.steps / f"rank-{rank}"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(attempt), int(step)) for attempt, step in (line.split() for line in lines)]

    def wait_for_step(self, step: int) -> None:
        wait_for(
            lambda: self.process.poll() is not None or any(done >= step for _, done in self.recorded()),
            (self.folder / "logs" / "batch.log").read_text,
        )
        assert self.process.poll() is None, self.process.communicate()

    def wait(self) -> None:
        output, errors = self.process.communicate(timeout=400)
        assert self.process.returncode == 0, output + errors
        self.value.append(float(output))

    def ledger(self, event: str) -> list[dict[str, Any]]:
        return [line for line in read_ledger(RunFolder(self.folder)) if line["event"] == event]

    def weights(self) -> dict[str, torch.Tensor]:
        return Checkpointer.load(self.folder, "model")


@pytest.fixture(scope="module")
def cluster(cluster_with: ClusterWith) -> Cluster:
    """One with time between SIGTERM and SIGKILL: what is saved must not depend on how busy this machine is."""
    return cluster_with(**SETTINGS)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template, baked with its defaults."""
    folder = tmp_path_factory.mktemp("survival")
    bake = [Path(sys.executable).with_name("cookiecutter"), "--no-input", "--output-dir", folder, TEMPLATE]
    subprocess.run(bake, check=True, capture_output=True)
    (folder / "digits" / "src" / "recorded.py").write_text(RECORDED)
    (folder / "digits" / "submit.py").write_text(SUBMIT)
    return folder / "digits"


def start(project: Path, cluster: Cluster, steps: Path, *, slow_s: float = 0, **settings: Any) -> Training:
    """Submit a training over 4 ranks and return as soon as it has a folder."""
    steps.mkdir()
    ours = {"PYTHONPATH": str(project / "src"), "HELPERS_ALLOW_CPU": "1", "SLOW_FIRST_ATTEMPT_S": str(slow_s)}
    environment = {**client_environment(), **cluster.environment, **ours}
    process = subprocess.Popen(
        [sys.executable, "submit.py", str(steps), str(EPOCHS), json.dumps(settings)],
        cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return Training(process, Path(line.strip()), steps)


@pytest.fixture(scope="module")
def uninterrupted(project: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """The same training, left alone."""
    training = start(project, cluster, tmp_path_factory.mktemp("steps") / "uninterrupted", partition="gpu")
    training.wait()
    return training


def assert_as_if_nothing_had_happened(training: Training, uninterrupted: Training) -> None:
    """Assert that each rank counted every step once, and that the weights are the same to the last bit."""
    last = uninterrupted.recorded()[-1][1]
    for rank in range(RANKS):
        recorded = training.recorded(rank)
        assert [step for _, step in recorded] == list(range(1, last + 1))
        assert {attempt for attempt, _ in recorded} == {0, 1}
    expected, weights = uninterrupted.weights(), training.weights()
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_a_preemption_without_a_user_signal_costs_no_step(
    project: Path, cluster: Cluster, uninterrupted: Training, tmp_path: Path
) -> None:
    """SIGTERM and a short grace is all that a job gets when another one takes its place; nothing may be lost."""
    # slowed down, so that it is in the middle when it is stopped, however fast the machine
    training = start(project, cluster, tmp_path / "steps", slow_s=0.7, partition="low")
    training.wait_for_step(8)
    node = training.ledger("start")[0]["nodes"]
    cluster.run(
        "sbatch", "--partition=gpu", "--gpus-per-node=a100:4", f"--nodelist={node}", "--output=/dev/null",
        "--wrap=sleep 3",
    )  # fmt: skip
    training.wait()
    assert_as_if_nothing_had_happened(training, uninterrupted)
    assert [line["cause"] for line in training.ledger("end")] == ["preempted", "returned"]
    assert len({line["job_id"] for line in training.ledger("start")}) == 1


def test_a_time_limit_costs_no_step(project: Path, cluster: Cluster, uninterrupted: Training, tmp_path: Path) -> None:
    """The warning before the limit is enough to save, and the same job goes on with a new limit."""
    training = start(project, cluster, tmp_path / "steps", slow_s=4, partition="gpu", time="2min")
    training.wait()
    assert_as_if_nothing_had_happened(training, uninterrupted)
    assert [line["cause"] for line in training.ledger("end")] == ["timeout", "returned"]
    assert len({line["job_id"] for line in training.ledger("start")}) == 1


def test_an_attached_job_tells_what_happened(
    project: Path, cluster: Cluster, uninterrupted: Training, slurm_env: dict[str, str]
) -> None:
    """From another process, after the end, a run still has its result, its state and its story."""
    job = attach(uninterrupted.folder)
    assert job.result(timeout=120) == uninterrupted.value[0]
    assert (job.state, job.attempt) == ("COMPLETED", 0)
    assert "epoch 6/6" in job.logs(rank=0)
