"""What is left to itself on a real Slurm: a process of the set-up, an array whose client has gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import attach_array, submit
from helpers.runtime.run.description import read_description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State
from helpers.submission.jobs.array_status import array_status
from helpers.submission.jobs.settling import settle_elements
from tests.cluster import Cluster
from tests.slurm.conftest import ClusterWith, become_client
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 90
SETTINGS = [{}, {"accounting": False, "max_array_size": 11}]  # both are there for other tests, too
SUBMIT = (
    "from helpers import submit_array\nfrom tests.unit.submission import functions\n"
    "print(submit_array(functions.add, range(5), slurm={'hold': True})[0].id.partition('_')[0])"
)


def test_a_process_of_the_set_up_does_not_hold_the_allocation(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: it was there until the time limit, and the result came only then; also one that holds the log open."""
    become_client(cluster, monkeypatch, tmp_path)
    job = submit(functions.add, 5, time="2min", setup=["sleep 1000 &", "exec 7> >(sleep 1000)"])
    assert job.result(timeout=PATIENCE_S) == 5
    wait_for(lambda: not cluster.run("squeue", "--noheader", f"--jobs={job.id}", "--format=%T").stdout.strip())


@pytest.mark.parametrize("settings", SETTINGS, ids=["accounting", "no accounting"])
@pytest.mark.parametrize("elements", ["", "_[0-4]"])
def test_a_waiting_array_that_scancel_has_taken_out_is_cancelled(
    cluster_with: ClusterWith,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, object],
    elements: str,
) -> None:
    """It said PENDING until somebody waited for it, and FAILED from then on."""
    cluster = cluster_with(**settings)
    become_client(cluster, monkeypatch, tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    array = subprocess.run([sys.executable, "-c", SUBMIT], capture_output=True, text=True, check=True).stdout.strip()
    cluster.run("scancel", f"{array}{elements}")
    jobs = attach_array(array)
    assert {row["state"] for row in jobs.table()} == {"CANCELLED"}
    run = RunFolder(jobs.folder)
    settle_elements([run])
    assert array_status(run, read_description(run), array).state is State.CANCELLED
