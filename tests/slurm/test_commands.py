"""Programs as Slurm jobs: GPUs, exit codes, signals, requeues, and what people run today."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import (
    Job,
    JobCancelled,
    JobExited,
    JobKilled,
    JobOutOfMemory,
    JobPreempted,
    TimeLimitReached,
    submit_command,
)
from tests.cluster import Cluster
from tests.slurm.conftest import ClusterWith
from tests.slurm.disturbances import SETTINGS
from tests.waiting import wait_for

PATIENCE_S = 150
pytestmark = pytest.mark.usefixtures("client")
CAN_SAVE = """
trap 'echo saved; exit 75' TERM
if [ "$HELPERS_ATTEMPT" != 0 ]; then echo "attempt $HELPERS_ATTEMPT in $HELPERS_RUN"; exit 0; fi
echo working
while :; do sleep 0.2; done
"""


@pytest.fixture(scope="module")
def cluster(cluster_with: ClusterWith) -> Cluster:
    """One with time between SIGTERM and SIGKILL: what a program hears must not depend on how busy this machine is."""
    return cluster_with(**SETTINGS)


def shell(script: str, **keywords: Any) -> Job[int]:
    return submit_command(["sh", "-c", script], **{"time": 10, **keywords})


def printed(job: Job[int], rank: int = 0) -> str:
    logs = sorted(job.folder.glob(f"logs/*/{rank}.out"))
    return "".join(file.read_text() for file in logs)


def test_one_process_a_node_sees_all_its_gpus() -> None:
    """torchrun, TensorFlow and R take the node's GPUs as they are."""
    script = "echo $SLURM_PROCID of $SLURM_NTASKS sees $CUDA_VISIBLE_DEVICES"
    one = shell(script, gpus=4, nodes=1)
    two = shell(script, gpus=4, nodes=2)
    assert (one.result(PATIENCE_S), printed(one)) == (0, "0 of 1 sees 0,1,2,3\n")
    assert two.results(PATIENCE_S) == [0, 0]
    assert [printed(two, rank) for rank in range(2)] == ["0 of 2 sees 0,1\n", "1 of 2 sees 0,1\n"]


def test_endings_are_told_apart() -> None:
    """Exit code, signal, memory: each its own error."""
    exited, killed = shell("exit 3"), shell("kill -SEGV $$")
    hungry = submit_command([sys.executable, "-c", "b'x' * 10**9"], mem="300M", time=10)
    assert isinstance(error := exited.exception(PATIENCE_S), JobExited)
    assert error.facts.exit_code == 3
    assert isinstance(error := killed.exception(PATIENCE_S), JobKilled)
    assert error.facts.signal == "SIGSEGV"
    assert isinstance(hungry.exception(PATIENCE_S), JobOutOfMemory)


def test_what_a_program_leaves_behind_does_not_hold_the_job() -> None:
    """C16: the allocation goes back when the program has ended."""
    job = shell("sleep 600 & echo left", gpus=1)
    assert (job.result(PATIENCE_S), printed(job)) == (0, "left\n")
    command = ["squeue", "--noheader", "--jobs", job.id, "--states=running,completing"]
    wait_for(lambda: not subprocess.run(command, capture_output=True, text=True, check=False).stdout)


def test_a_cancel_reaches_the_program(client: Path) -> None:
    """Slurm signals its direct child only; the program is one further."""
    job = shell("trap 'echo heard > heard; exit 1' TERM; sleep 600 & echo ready; wait")  # a wait ends at the signal
    wait_for(lambda: "ready" in printed(job))
    job.cancel()
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)  # which the queue tells before the program has ended
    wait_for((client / "heard").exists)


def test_a_preempted_program_that_asks_by_75_goes_on() -> None:
    """Same id, same run folder, the next attempt."""
    job = shell(CAN_SAVE, partition="low", gpus=4, nodes=1)
    wait_for(lambda: "working" in printed(job))
    node = subprocess.run(
        ["squeue", "-h", "-j", job.id, "-o", "%N"], capture_output=True, text=True, check=True
    ).stdout.strip()
    first_id = job.id
    taker = shell("sleep 1", partition="gpu", gpus=4, nodes=1, slurm={"nodelist": node})
    assert taker.result(PATIENCE_S) == 0
    assert (job.result(PATIENCE_S * 2), job.attempt, job.id) == (0, 1, first_id)
    assert f"attempt 1 in {job.folder}" in printed(job)


def test_a_preempted_program_that_does_not_ask_ends() -> None:
    """From the start again would be another computation."""
    job = shell("echo working; sleep 600", partition="low", gpus=4, nodes=1)
    wait_for(lambda: "working" in printed(job))
    node = subprocess.run(
        ["squeue", "-h", "-j", job.id, "-o", "%N"], capture_output=True, text=True, check=True
    ).stdout.strip()
    shell("sleep 1", partition="gpu", gpus=4, nodes=1, slurm={"nodelist": node})
    error = job.exception(PATIENCE_S * 2)
    assert isinstance(error, JobPreempted)
    assert "exit code 75" in str(error)


def test_a_signal_asked_for_reaches_the_program_before_the_limit() -> None:
    """By sbatch's own notation; here it comes at once, the limit being a minute."""
    job = shell(
        "trap 'echo warned; exit 75' USR1; [ $HELPERS_ATTEMPT = 0 ] || exit 0; while :; do sleep 0.2; done",
        time=1,
        slurm={"signal": "USR1@50"},
    )
    assert job.result(PATIENCE_S * 2) == 0
    assert "warned" in printed(job)


@pytest.mark.full
def test_a_time_limit_without_a_wish_to_go_on_is_a_time_limit() -> None:
    """SIGTERM is all that a command gets."""
    assert isinstance(shell("sleep 600", time=1).exception(PATIENCE_S * 2), TimeLimitReached)


def test_torchrun_runs_unchanged(client: Path) -> None:
    """One process on the node, which starts its own ranks."""
    script = client / "ranks.py"
    script.write_text("import os\nopen('rank' + os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'])\n")
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    job = submit_command([torchrun, "--standalone", "--nproc_per_node=2", str(script)], gpus=2, time=10)
    assert job.result(PATIENCE_S) == 0
    assert [(client / f"rank{rank}").read_text() for rank in range(2)] == ["2", "2"]


@pytest.mark.parametrize("program", ["Rscript", "perl"])
def test_other_languages_run(program: str, client: Path) -> None:
    """R's own words for its arguments and its exit code."""
    if shutil.which(program) is None and os.environ.get("HELPERS_REQUIRE_SLURM") != "1":
        pytest.skip(f"there is no {program} on this machine")
    scripts = {
        "Rscript": "cat(commandArgs(trailingOnly=TRUE), '\\n'); quit(status=6)\n",
        "perl": "print join(' ', @ARGV), \"\\n\"; exit 6;\n",
    }
    (client / "fit.script").write_text(scripts[program])
    job = submit_command([program, "fit.script", "--trees", "it's 100"], time=10)
    error = job.exception(PATIENCE_S)
    assert isinstance(error, JobExited)
    assert (error.facts.exit_code, printed(job).split()) == (6, ["--trees", "it's", "100"])
