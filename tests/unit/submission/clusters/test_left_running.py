"""What the set-up has left running is the user's; the job does not wait for it."""

import subprocess

import pytest

from helpers import submit
from helpers.testing import FakeSlurm
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240


@pytest.mark.parametrize("line", ["sleep 1000 &", "exec 7> >(sleep 1000)", "coproc sleep 1000"])
@pytest.mark.parametrize("cluster", ["slurm", "local"])
def test_a_process_of_the_set_up_does_not_hold_the_job(fake_slurm: FakeSlurm, cluster: str, line: str) -> None:
    """It held the allocation until the time limit, and the result came only then."""
    job = submit(functions.add, 5, cluster=cluster, setup=[line])
    assert job.result(PATIENCE_S) == 5
    if cluster == "slurm":
        queue = ["squeue", "--noheader"]
        wait_for(lambda: not subprocess.run(queue, capture_output=True, check=True).stdout, "it leaves the queue")
