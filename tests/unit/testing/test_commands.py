"""The fake's commands, as scripts call them; against the real ones they are held in tests/slurm."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.testing import FakeSlurm, Settings

Shell = Callable[[str], str]


@pytest.fixture
def fake_slurm_settings() -> Settings:
    return Settings(seconds_per_minute=1.5, kill_wait_s=0.3)


@pytest.fixture
def shell(fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a function that runs a line of bash, and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))

    def run(line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=200
        )
        return (done.stdout + done.stderr).strip()

    return run


def ended(slurm: FakeSlurm, job: str) -> str:
    return slurm.wait_for(job, timeout_s=120).state


def once_there_is(file: str) -> str:
    """Return a shell line that waits for a file in the folder of submission."""
    return f"until [ -e {file} ]; do sleep 0.05; done"


def test_a_minute_may_be_short(shell: Shell, fake_slurm: FakeSlurm) -> None:
    """The warning comes in the job's own time, and the end is told in it."""
    script = "trap 'echo warned' USR1; while :; do sleep 0.05; done"
    Path("job.sh").write_text(f"#!/bin/bash\n{script}\n")
    job = shell("sbatch --parsable -o log -t 8 --signal=B:USR1@240 job.sh")  # after 6 of 12 s
    longer = shell("sbatch --parsable -o /dev/null -t 100 --wrap='sleep 600'")
    left_s = int(shell(f"SLURM_TIME_FORMAT=%s squeue -h -j {longer} -o %e")) - time.time()
    assert 0 < left_s <= 151
    shell(f"scancel {longer}")
    assert (ended(fake_slurm, job), "warned" in shell("cat log")) == ("TIMEOUT", True)


def test_an_array_runs_few_at_a_time(shell: Shell, fake_slurm: FakeSlurm) -> None:
    """And waits for nothing else; its elements have ids and exit codes of their own."""
    line = f"{once_there_is('go')}; exit $((SLURM_ARRAY_TASK_ID % 2))"
    job = shell(f"sbatch --parsable -o /dev/null --array=1-5%2 --wrap='{line}'")
    assert shell(f"squeue -h -r -t R -j {job} | wc -l") == "2"
    Path("go").touch()
    states = [ended(fake_slurm, f"{job}_{task}") for task in range(1, 6)]
    assert states == ["FAILED", "COMPLETED", "FAILED", "COMPLETED", "FAILED"]


def test_a_thousand_elements_are_queued_at_once(shell: Shell, fake_slurm: FakeSlurm) -> None:
    """One sbatch, and one squeue that tells all of them."""
    with fake_slurm.hold_queue():
        job = shell("sbatch --parsable -o /dev/null --array=0-999 --wrap=true")
        assert shell(f"squeue -h -r -j {job} | wc -l") == "1000"
        shell(f"scancel {job}")
        assert shell(f"squeue -h -r -j {job} | wc -l") == "0"


def test_a_dependent_job_waits(shell: Shell, fake_slurm: FakeSlurm) -> None:
    """It starts after success; one that cannot start any more is cancelled where it asked for that."""
    first = shell("sbatch --parsable -o /dev/null --hold --wrap='exit 1'")
    good = shell(f"sbatch --parsable -o /dev/null -d afterany:{first} --wrap=true")
    bad = shell(f"sbatch --parsable -o /dev/null -d afterok:{first} --kill-on-invalid-dep=yes --wrap=true")
    assert shell(f"squeue -h -j {good} -o '%T %r'") == "PENDING Dependency"
    shell(f"scontrol release {first}")
    assert [ended(fake_slurm, job) for job in (first, good, bad)] == ["FAILED", "COMPLETED", "CANCELLED"]


def test_srun_starts_a_job_of_its_own(shell: Shell) -> None:
    """Outside a job it takes an allocation, and gives it back."""
    assert shell("srun -n2 bash -c 'echo $SLURM_JOB_PARTITION $SLURM_PROCID' | sort") == "gpu 0\ngpu 1"
    assert shell("srun bash -c 'exit 3' 2>/dev/null; echo $?") == "3"


def test_sbatch_waits_where_it_is_asked_to(shell: Shell) -> None:
    """Its exit code is that of the job."""
    assert shell("sbatch --wait -o /dev/null --wrap='sleep 0.1; exit 5' 2>/dev/null; echo $?") == "5"


def test_a_job_in_a_higher_partition_takes_the_place_of_one_in_a_lower(shell: Shell, fake_slurm: FakeSlurm) -> None:
    """As where a lab's own nodes are lent out; the other one starts again when there is room."""
    for _ in range(2):
        shell("""sbatch -p low --exclusive -o /dev/null --wrap='[ -n "$SLURM_RESTART_COUNT" ] || exec sleep 600'""")
    for low in ("1", "2"):
        fake_slurm.wait_for(low, "RUNNING")
    job = shell("sbatch --parsable -p gpu -N2 --exclusive -o /dev/null --wrap='sleep 0.2'")
    assert ended(fake_slurm, job) == "COMPLETED"
    assert [(ended(fake_slurm, low), fake_slurm.job(low).restarts) for low in ("1", "2")] == [("COMPLETED", 1)] * 2


def test_a_job_cannot_take_what_another_one_has(shell: Shell, fake_slurm: FakeSlurm) -> None:
    """GPUs are given out once, by number."""
    line = f"echo $SLURM_JOB_GPUS; {once_there_is('go')}"
    jobs = [shell(f"sbatch --parsable -w gpu1 --gpus-per-node=a100:2 -o gpus-%j --wrap='{line}'") for _ in range(3)]
    assert fake_slurm.job(jobs[2]).state == "PENDING"
    Path("go").touch()
    assert [ended(fake_slurm, job) for job in jobs] == ["COMPLETED"] * 3
    assert sorted(shell(f"cat gpus-{jobs[0]} gpus-{jobs[1]}").split()) == ["0,1", "2,3"]


def test_over_limits_is_refused_where_the_cluster_enforces_them(tmp_path: Path) -> None:
    """Slurm's EnforcePartLimits."""
    with FakeSlurm(Settings(enforces_limits=True)) as slurm:
        words = ["sbatch", "--time=30-0", "--wrap=true"]
        done = subprocess.run(words, env=slurm.environment, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("Requested time limit is invalid (missing or exceeds some limit)\n")
