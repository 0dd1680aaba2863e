"""A controller that does not answer, and a process that dies: who waits for a job learns what became of it."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from helpers import Job, JobExited, JobKilled, submit
from tests.cluster import Cluster
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 120
KNOWS_WITHIN_S = 3
WHOLE_SECONDS_S = 1  # Slurm tells the end in whole seconds, cut off

# What squeue prints when the controller is overloaded: twice, then Slurm's own answer.
TIMED_OUT = """#!/bin/sh
echo "$@" >> {folder}/asked
if [ "$(wc -l < {folder}/asked)" -le 2 ]; then
    echo "slurm_load_jobs error: Socket timed out on send/recv operation" >&2
    exit 1
fi
PATH=${{PATH#*:}} exec squeue "$@"
"""


pytestmark = pytest.mark.usefixtures("client")


def wait_until_started(job: Job[Any]) -> None:
    wait_for(lambda: list(job.folder.glob("attempts/0/started-*")))


def test_a_question_that_timed_out_is_asked_again_and_said_once(
    client: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """C10: taken for an answer, it ended jobs that ran; repeated at once, it kept the controller down."""
    job = submit(functions.sleep, 600, time=5)
    wait_until_started(job)
    shim = client / "bin" / "squeue"
    shim.parent.mkdir()
    shim.write_text(TIMED_OUT.format(folder=client))
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    subprocess.run(["scancel", "--batch", "--signal=KILL", job.id], check=True)  # it cannot say so itself any more
    assert isinstance(job.exception(PATIENCE_S), JobKilled)
    assert capfd.readouterr().err.count("Socket timed out") == 1
    assert len((client / "asked").read_text().splitlines()) > 2


@pytest.mark.full  # each of Slurm's commands waits for ten seconds then
@pytest.mark.timeout(300)
def test_a_result_arrives_while_the_controller_is_down(
    cluster: Cluster, client: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The job tells its end in its own folder; nobody else has to be asked."""
    job = submit(functions.wait_for_file, str(client), 7, time=5)
    wait_until_started(job)
    cluster.stop_daemon("slurmctld")
    try:
        wait_for(lambda: "Asking again until it does" in capfd.readouterr().err)
        (client / "go").touch()
        assert (job.result(PATIENCE_S), job.state) == (7, "COMPLETED")
        assert "Asking again" not in capfd.readouterr().err
    finally:
        cluster.start_daemon("slurmctld")
        cluster.wait_until_idle()


def test_a_dead_process_is_known_soon_after_slurm_knows(cluster: Cluster) -> None:
    """C01: the caller waited 17 s for a file that never came. The best of three counts: the machine may be busy."""
    ended: dict[str, float] = {}
    jobs = [submit(function, *args, time=5) for function, args in DEATHS]
    for job in jobs:
        job.add_done_callback(lambda _, job=job: ended.setdefault(job.id, time.time()))
    assert [type(job.exception(PATIENCE_S)) for job in jobs] == [JobKilled, JobExited, JobKilled]
    late_s = [ended[job.id] - end_by_slurm(cluster, job) for job in jobs]
    assert min(late_s) <= KNOWS_WITHIN_S + WHOLE_SECONDS_S


DEATHS = [(functions.kill_self, ()), (functions.leave_at_once, (5,)), (functions.kill_self, (6,))]


def end_by_slurm(cluster: Cluster, job: Job[Any]) -> float:
    """Return when the job ended, by the controller, in seconds since the epoch."""
    question = [
        "env",
        "SLURM_TIME_FORMAT=%s",
        "squeue",
        "--noheader",
        "--states=all",
        f"--jobs={job.id}",
        "--format=%T %e",
    ]
    wait_for(lambda: cluster.run(*question).stdout.split()[0] == "FAILED")
    return float(cluster.run(*question).stdout.split()[1])
