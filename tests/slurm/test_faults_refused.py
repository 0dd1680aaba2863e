"""Where Slurm does not requeue, a successor goes on; and what waits for the job waits for the successor."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cluster.client import client_environment
from tests.slurm.faults import RANKS, ROOT, WHOLE, Disturbed, Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster import Cluster
    from tests.slurm.conftest import ClusterWith

# What a site's plugin answers where users may not requeue; everything else is Slurm's own.
DENIED = """#!/bin/sh
if [ "$1" = requeue ]; then
    echo "Job has been denied: requeue is not allowed here" >&2
    exit 1
fi
PATH=$(echo "$PATH" | sed "s|$(dirname "$0"):||")
exec scontrol "$@"
"""
DEPENDENT = """
import sys
from helpers import attach, submit
from tests.unit.submission import functions

dependent = submit(functions.add, 1, 2, after=attach(sys.argv[1]), name="dependent", time=5)
print(dependent.folder, flush=True)
print(dependent.result(timeout=280))
"""


@pytest.fixture(scope="module")
def refused(cluster_with: ClusterWith, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, str, str]:
    """What came of a job that was told to stop and may not be requeued, of what waits for it, and its log."""
    cluster = cluster_with(requeue=False, accounting=False)
    folder = tmp_path_factory.mktemp("refused")
    shim = folder / "bin" / "scontrol"
    shim.parent.mkdir()
    shim.write_text(DENIED)
    shim.chmod(0o755)
    job = Disturbed(cluster, folder / "job", {"setup": [f"export PATH={shim.parent}:$PATH"]}).start()
    job.hold()
    dependent = _start_dependent(cluster, job.run.path, folder)
    assert dependent.stdout is not None
    dependent.stdout.readline()  # it is queued
    cluster.run("scancel", "--signal=TERM", job.job_id)
    outcome = job.outcome()
    printed, errors = dependent.communicate(timeout=280)
    return outcome, printed + errors, job.run.batch_log.read_text()


def _start_dependent(cluster: Cluster, run: Path, folder: Path) -> subprocess.Popen[str]:
    environment = {**client_environment(), **cluster.environment, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", DEPENDENT, str(run)],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_successor_goes_on_where_the_job_was(refused: tuple[Outcome, str, str]) -> None:
    """Another id, the same run: no step is lost, and the first caller gets the value."""
    outcome = refused[0]
    assert (outcome.error, outcome.value) == (None, WHOLE)
    assert outcome.lost == [0] * RANKS
    assert outcome.attempts == [0, 1]
    assert len(outcome.ids) == 2


def test_what_waits_for_the_job_waits_for_its_successor(refused: tuple[Outcome, str, str]) -> None:
    """Slurm would have let it begin when the first attempt left."""
    assert refused[1].splitlines()[0] == "3"
    assert "moved to it: " in refused[2]
