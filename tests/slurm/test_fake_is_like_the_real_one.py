"""The fake Slurm answers as the real one does: each scenario runs on both, and is expected to tell the same."""

import re
import subprocess
import time
from typing import Any

import pytest

from tests.slurm.both_slurms import PATIENCE_S, Log, Slurm
from tests.slurm.conftest import ClusterWith
from tests.waiting import wait_for

REFUSED = [
    "--partition=nope", "--gpus-per-node=8", "--gpus-per-node=h100:1", "--gres=gpu:a100:5", "--mem=50G",
    "--reservation=nonesuch", "--constraint=h100", "--nodelist=foo", "--array=0-2000", "--array=x", "--time=abc",
    "--bogus", "--mem=abc", "--dependency=foo:1", "--signal=FOO@10", "--nodes=abc", "--ntasks=abc",
    "--mem=1G --mem-per-cpu=1G", "--ntasks-per-gpu=1 --ntasks-per-node=1",
]  # fmt: skip


@pytest.mark.parametrize("option", REFUSED)
def test_refusals(both: Any, option: str) -> None:
    """The same sentence, on the same stream, with the same exit code."""
    real, fake = both(lambda slurm: slurm.run("sbatch", "--parsable", *option.split(), "--wrap=true"))
    assert fake == real


UNKNOWN = [
    ["squeue", "--jobs=99999"], ["squeue", "--jobs=abc"], ["squeue", "-h", "--jobs=99999,99998"],
    ["scancel", "99999"], ["scancel", "abc"], ["scontrol", "show", "job", "99999"],
    ["scontrol", "requeue", "Incomplete", "99999"], ["scontrol", "requeue", "abc"], ["scontrol", "hold", "99999"],
    ["scontrol", "release", "99999"], ["scontrol", "bogus"], ["sbatch", "missing.sh"],
    ["sacct", "-nPX", "--format=JobID,State", "--jobs=99999"], ["sinfo", "--version"],
    ["scontrol", "show", "hostnames", "gpu[1-3,7],x1"], ["scontrol", "update", "jobid=99999", "timelimit=3"],
]  # fmt: skip


@pytest.mark.parametrize("words", UNKNOWN, ids=" ".join)
def test_what_there_is_not(both: Any, words: list[str]) -> None:
    """An id, a file or a word that is not known."""
    real, fake = both(lambda slurm: slurm.run(*words))
    assert fake == real


STEP = "bash -c 'touch step-$SLURM_RESTART_COUNT; exec sleep 60'"
"""What a step runs; the file says that it does."""

NEVER = ["--time=8-0", "--nodes=3", "--cpus-per-task=20", "--partition=gpu:interactive --time=60", "--hold",
         "--begin=now+1hour"]  # fmt: skip


@pytest.mark.parametrize("options", NEVER)
def test_why_a_job_waits(both: Any, options: str) -> None:
    """Without limits enforced at submission, Slurm takes what can never run, and says why it waits."""

    def scenario(slurm: Slurm) -> list[list[str]]:
        job = slurm.sbatch("true", *options.split())
        time.sleep(1.5)  # the first reason may not be the last
        wait_for(lambda: slurm.rows(job)[0][2] != "None")
        rows = slurm.rows(job)
        slurm.run("scancel", job)
        slurm.wait(job, "CANCELLED")
        return rows + slurm.rows(job)

    real, fake = both(scenario)
    assert fake == real


ENDINGS = {
    "success": "true",
    "exit code": "exit 7",
    "signal": "kill -9 $$",
    "step exit code": 'srun -n1 bash -c "exit 5"; exit $?',
    "no such program": "srun -n1 /nonexistent; exit $?",
    "two tasks fail": "srun -n2 bash -c 'sleep 0.$((SLURM_PROCID * 3)); exit $((SLURM_PROCID + 3))'; exit $?",
    "a task is killed": "srun -n2 --kill-on-bad-exit=1 bash -c "
    "'if [ $SLURM_PROCID = 1 ]; then sleep 0.3; kill -9 $$; else sleep 30; fi'; echo rc $?; exit 3",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_endings(both: Any, ending: str) -> None:
    """State, reason, exit code, what accounting says, and what the log says of the ranks."""

    def scenario(slurm: Slurm) -> tuple[Any, ...]:
        job = slurm.sbatch(ENDINGS[ending], "--ntasks=2")
        slurm.wait(job, "COMPLETED", "FAILED")
        accounted = slurm.accounted("sacct", "-nPX", "--format=State,ExitCode", f"--jobs={job}")
        return slurm.rows(job), accounted, Log(slurm.log(job))

    real, fake = both(scenario)
    assert fake == real


def test_the_variables_of_a_job(both: Any) -> None:
    """What the batch script and each task see, by name; and by value, where a value is no accident."""
    script = "env | grep -oE '^(SLURM|CUDA)[^=]*=.*' | sort > batch; srun bash -c 'env | sort > task-$SLURM_PROCID'"
    accident = re.compile(r"PORT|PID|ADDR|JOBID|JOB_ID|CONF|CLUSTER|_HOST|SRUN_DEBUG|UID|GID|USER|PACK|SUBMIT|STEPID")

    def scenario(slurm: Slurm) -> Any:
        job = slurm.sbatch(
            script, "--gpus-per-node=a100:2", "--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=2", "--mem=1G",
            "--time=5", "--job-name=named",
        )  # fmt: skip
        slurm.wait(job, "COMPLETED")
        seen = {}
        for name in ("batch", "task-0", "task-3"):
            lines = [line.partition("=") for line in (slurm.folder / name).read_text().splitlines()]
            own = {k: v for k, _, v in lines if k.startswith(("SLURM", "CUDA")) and not accident.search(k)}
            seen |= {f"{name} {k}": re.sub(r"\b[a-z]{5}-gpu", "gpu", v) for k, v in own.items()}
        return seen

    real, fake = both(scenario)
    assert sorted(fake.items() ^ real.items()) == []


def test_an_array(both: Any) -> None:
    """Ids, throttle, states of each element, one that is cancelled before it starts, exit codes."""

    def scenario(slurm: Slurm) -> Any:
        job = slurm.sbatch("until [ -e go ]; do sleep 0.1; done; exit $SLURM_ARRAY_TASK_ID", "--array=0-3%2")
        wait_for(lambda: sum(row[1] == "RUNNING" for row in slurm.rows(job)) == 2)
        first = slurm.rows(job)
        together = slurm.run("squeue", "-h", "-o", "%K %T %r", f"--jobs={job}")
        one = slurm.run("squeue", "-h", "-r", "-o", "%K %T %r", f"--jobs={job}_1,{job}_2")
        slurm.run("scancel", f"{job}_3")
        (slurm.folder / "go").touch()
        slurm.wait(job, "COMPLETED", "FAILED")
        return first, sorted(together[1].splitlines()), sorted(one[1].splitlines()), slurm.rows(job)

    real, fake = both(scenario)
    assert fake == real


def test_dependencies(both: Any) -> None:
    """After success, after any end, after failure, and what becomes of those that can never start."""

    def scenario(slurm: Slurm) -> Any:
        first = slurm.sbatch("true", "--hold")
        others = [
            slurm.sbatch("true", *options.split())
            for options in (
                f"--dependency=afterok:{first}", f"--dependency=afterany:{first}",
                f"--dependency=afternotok:{first}", f"--dependency=afternotok:{first} --kill-on-invalid-dep=yes",
                "--dependency=afterok:999999",
            )
        ]  # fmt: skip
        before = slurm.rows(first, *others[:-1])
        shown = slurm.run("scontrol", "-o", "show", "job", others[0])[1].partition("Dependency=")[2].split()[0]
        slurm.run("scontrol", "release", first)
        for job in [first, *others[:2]]:
            slurm.wait(job, "COMPLETED")
        slurm.wait(others[3], "CANCELLED")
        wait_for(lambda: slurm.rows(others[2])[0][2] == "DependencyNeverSatisfied")
        return before, shown.replace(first, "N"), slurm.rows(first, *others)

    real, fake = both(scenario)
    assert fake == real


def test_requeue_and_cancel(both: Any) -> None:
    """What scontrol requeue answers to a job that runs, waits again, is over, or may not be requeued."""

    def scenario(slurm: Slurm) -> Any:
        job = slurm.sbatch(f"trap : TERM; echo start $SLURM_RESTART_COUNT; srun {STEP}; echo rc $?; exit 4")
        fixed = slurm.sbatch("sleep 60", "--no-requeue")
        slurm.wait(job, "RUNNING")
        slurm.wait(fixed, "RUNNING")
        wait_for((slurm.folder / "step-").exists)
        said = [slurm.run("scontrol", "requeue", "Incomplete", fixed), slurm.run("scontrol", "requeue", fixed)]
        said += [slurm.run("scontrol", "requeue", "Incomplete", job)]
        wait_for(lambda: "start 1" in slurm.log(job), within_s=PATIENCE_S)
        wait_for((slurm.folder / "step-1").exists)
        slurm.run("scancel", job, fixed)
        slurm.wait(job, "CANCELLED")
        slurm.wait(fixed, "CANCELLED")
        said += [slurm.run("scontrol", "requeue", "Incomplete", job), slurm.run("scancel", job)]
        said += [slurm.run("scontrol", "hold", job)]
        accounted = slurm.accounted("sacct", "-nPXD", "--format=State,ExitCode", f"--jobs={job}")
        return said, slurm.rows(job, fixed), accounted, Log(slurm.log(job))

    real, fake = both(scenario)
    assert fake == real


def test_preemption_by_a_job_of_a_higher_partition(both: Any) -> None:
    """TERM at once, the words in the log, and the same job again with its restart counted."""

    def scenario(slurm: Slurm) -> Any:
        job = slurm.sbatch(
            f"trap : TERM; echo start $SLURM_RESTART_COUNT; srun -n1 {STEP}; echo rc $?; sleep 9",
            "--partition=low", "--ntasks=8", "--mem=4G",
        )  # fmt: skip
        wait_for((slurm.folder / "step-").exists)
        node = subprocess.run(
            ["squeue", "-h", "-o", "%N", f"--jobs={job}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        other = slurm.sbatch("sleep 1", "--ntasks=8", "--mem=4G", f"--nodelist={node}")
        slurm.wait(other, "COMPLETED")
        wait_for(lambda: "start 1" in slurm.log(job), within_s=PATIENCE_S)
        slurm.run("scancel", job)
        slurm.wait(job, "CANCELLED")
        accounted = slurm.accounted("sacct", "-nPXD", "--format=State", f"--jobs={job}")
        return Log(slurm.log(job).partition("start 1")[0]), accounted

    real, fake = both(scenario)
    assert fake == real


def test_a_lost_node(both: Any) -> None:
    """A job that may be requeued starts elsewhere; the other one has failed with its node."""

    def scenario(slurm: Slurm) -> Any:
        jobs = [slurm.sbatch("sleep 60"), slurm.sbatch("sleep 60", "--no-requeue")]
        for job in jobs:
            slurm.wait(job, "RUNNING")
        words = ["squeue", "-h", "-o", "%N", f"--jobs={','.join(jobs)}"]
        nodes = sorted(set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()))
        slurm.run("scontrol", "update", f"nodename={','.join(nodes)}", "state=down", "reason=test")
        slurm.wait(jobs[1], "NODE_FAIL")
        lost = slurm.rows(jobs[0], jobs[1])[1]
        slurm.run("scontrol", "update", f"nodename={','.join(nodes)}", "state=resume")
        slurm.wait(jobs[0], "RUNNING")
        restarts = slurm.run("scontrol", "-o", "show", "job", jobs[0])[1].partition("Restarts=")[2].split()[0]
        slurm.run("scancel", *jobs)
        return lost, restarts

    real, fake = both(scenario)
    assert fake == real


@pytest.mark.full
def test_the_time_limit(both: Any) -> None:
    """The warning, the words in the log, the state: a minute of real time on both."""
    script = "trap : TERM; srun bash -c 'trap \"echo warned\" USR2; for i in $(seq 900); do sleep 0.1; done'; exit 6"

    def scenario(slurm: Slurm) -> Any:
        job = slurm.sbatch(script, "--time=1", "--signal=USR2@10")
        slurm.wait(job, "TIMEOUT")
        return slurm.rows(job), Log(slurm.log(job))

    real, fake = both(scenario)
    assert fake == real


@pytest.mark.parametrize(
    "words",
    [
        ["sinfo"], ["sinfo", "-s"], ["scontrol", "show", "partition"],
        ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T %c %G"],
        ["sinfo", "-h", "-p", "gpu", "-O", "Gres:|,GresUsed:|,CPUsState:|,StateLong:|"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_how_the_cluster_is_shown(both: Any, cluster_with: ClusterWith, words: list[str]) -> None:
    """Column by column; only the width of the longest name differs."""
    cluster_with().wait_until_idle()  # the jobs of the test before are being cleaned up
    real, fake = both(lambda slurm: re.sub(r" +", " ", slurm.run(*words)[1]))
    assert fake == real
