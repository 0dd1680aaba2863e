"""Handed cases of jobs that are stopped, as they were written: minutes long, on a real cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from tests.cluster.client import client_environment
from tests.slurm.faults_program import PATIENCE_S
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster import Cluster

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]
ROOT = Path(__file__).parents[2]
STEPS, SAVE_EVERY = 240, 20

FUNCTIONS = f"""
import time
from pathlib import Path

from helpers import current_run
from helpers.training import Checkpointer


def train(file):
    state = {{"done": 0}}
    for step in Checkpointer(state, save_every={SAVE_EVERY}).steps({STEPS}):
        with open(file, "a") as steps:
            steps.write(f"{{step + 1}}\\n")
        time.sleep(1)
        state["done"] += 1
    return state["done"]


def element(folder, number):
    run = current_run()
    with open(Path(folder) / f"starts-{{number}}", "a") as starts:
        starts.write(f"{{time.time()}} {{run.attempt}}\\n")
    state = {{"done": 0}}
    for _ in Checkpointer(state, save_every=10).steps(60):
        time.sleep(1)
        state["done"] += 1
    return number * 100 + state["done"]
"""
C18 = """
import sys
from cases import train
from helpers import submit

job = submit(train, sys.argv[1], time="2min", cpus=1)
print(job.folder, flush=True)
print(job.result(timeout=1400))
"""
C20 = """
import json, sys
from cases import element
from helpers import Executor, call

jobs = Executor(time=10, cpus=1).map(element, [call(sys.argv[1], number) for number in range(3)])
print(json.dumps([str(job.folder) for job in jobs]), flush=True)
print(json.dumps([job.result(timeout=600) for job in jobs]))
"""


def start(cluster: Cluster, folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a program that submits, as a user would: in a folder with a module of its own."""
    (folder / "cases.py").write_text(FUNCTIONS)
    (folder / "program.py").write_text(program)
    environment = {**client_environment(), **cluster.environment, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "program.py", *arguments],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def first_line(process: subprocess.Popen[str]) -> str:
    """Return what it prints once it has submitted."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return line.strip()


def ledger(folder: Path, event: str) -> list[dict[str, Any]]:
    """Return the lines of a run's ledger."""
    return [line for line in read_ledger(RunFolder(folder)) if line["event"] == event]


def test_a_training_longer_than_its_time_limit_comes_to_its_end(cluster: Cluster, tmp_path: Path) -> None:
    """C18: nobody set a signal option, and it comes back by itself, under the same id, from a saved step."""
    steps = tmp_path / "steps"
    process = start(cluster, tmp_path, C18, str(steps))
    folder = Path(first_line(process))
    printed, errors = process.communicate(timeout=1450)
    assert (process.returncode, printed.strip()) == (0, str(STEPS)), errors
    recorded = [int(line) for line in steps.read_text().split()]
    ends, begins = ledger(folder, "end"), ledger(folder, "start")
    assert sorted(set(recorded)) == list(range(1, STEPS + 1))
    assert len(recorded) == STEPS  # with a warning not even one is repeated
    assert {line["cause"] for line in ends[:-1]} == {"timeout"}
    assert len({line["job_id"] for line in begins}) == 1
    assert len(begins) >= 3
    log = RunFolder(folder).batch_log.read_text()
    assert all(f"timeout: saved at step {line['step']}, asking for a requeue" in log for line in ends[:-1])


def test_only_the_element_that_is_signalled_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    """C20: by the array's first id its siblings would start again; the last to start bears that id."""
    process = start(cluster, tmp_path, C20, str(tmp_path))
    folders = [Path(text) for text in json.loads(first_line(process))]
    wait_for(
        lambda: all((tmp_path / f"starts-{number}").exists() for number in range(3)),
        "all elements run",
        within_s=PATIENCE_S,
    )
    ids = [ledger(folder, "start")[0]["job_id"] for folder in folders]
    array = ids[0].partition("_")[0]
    last = next(number for number in range(3) if _own_id(cluster, ids[number]) == array)
    time.sleep(5)
    for number in dict.fromkeys([1, last]):
        cluster.run("scancel", "--signal=USR2", ids[number])
        time.sleep(5)
    printed, errors = process.communicate(timeout=650)
    assert process.returncode == 0, errors
    assert json.loads(printed) == [60, 160, 260]
    starts = [len((tmp_path / f"starts-{number}").read_text().splitlines()) for number in range(3)]
    assert starts == [2 if number in {1, last} else 1 for number in range(3)]
    seen = cluster.run("sacct", "--noheader", "--allocations", "--format=JobID", f"--jobs={array}").stdout.split()
    assert sorted(set(seen)) == sorted(ids)


def _own_id(cluster: Cluster, job: str) -> str:
    """Return ``SLURM_JOB_ID`` of an array's element."""
    words = cluster.run("scontrol", "--oneliner", "show", "job", job).stdout.split()
    return next(word.partition("=")[2] for word in words if word.startswith("JobId="))
