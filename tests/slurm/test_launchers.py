"""MPI's ranks on the real Slurm: Debian's Open MPI, which has to start them by mpirun."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from helpers import InvalidRequest, Job, JobKilled, submit, submit_command
from tests.slurm import mpi_functions
from tests.waiting import wait_for

PATIENCE_S = 240
ROOT = Path(__file__).parents[2]
WIDE: dict[str, Any] = {"launcher": "mpi", "processes": 4, "nodes": 2, "time": 10}
PROGRAM = """
import os
from mpi4py import MPI
print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, os.environ["SLURM_PROCID"], os.environ["RANK"])
"""


@pytest.fixture(scope="module")
def jobs(module_client: Path) -> dict[str, Job[Any]]:
    """Jobs that several tests look at, submitted at once."""
    if shutil.which("mpirun") is None and os.environ.get("HELPERS_REQUIRE_SLURM") != "1":
        pytest.skip("there is no mpirun on this machine")
    (module_client / "program.py").write_text(PROGRAM)
    return {
        "meet": submit(mpi_functions.meet, **WIDE),
        "raise": submit(mpi_functions.meet, "raise", **WIDE),
        "kill": submit(mpi_functions.meet, "kill", **WIDE),
        "program": submit_command([sys.executable, "program.py"], **WIDE),
    }


def test_the_world_of_mpi_is_the_run(jobs: dict[str, Job[Any]]) -> None:
    """One number for a rank, whoever is asked: MPI, this library, Slurm's variables, the results and the logs."""
    results = jobs["meet"].results(PATIENCE_S)
    assert [one["mpi"] for one in results] == [(rank, 4) for rank in range(4)]
    assert [one["helpers"] for one in results] == [(0, 4, 0, 0), (1, 4, 1, 0), (2, 4, 0, 1), (3, 4, 1, 1)]
    assert [one["slurm"] for one in results] == [
        ["0", "0", "0", "4"], ["1", "1", "0", "4"], ["2", "0", "1", "4"], ["3", "1", "1", "4"],
    ]  # fmt: skip
    assert [one["total"] for one in results] == [6, 6, 6, 6]
    assert len({one["node"] for one in results}) == 2
    printed = [(jobs["meet"].folder / "logs" / "0" / f"{rank}.out").read_text() for rank in range(4)]
    assert printed == [f"rank {rank} met 4\n" for rank in range(4)]


def test_the_rank_that_fails_first_is_the_one_that_is_told(jobs: dict[str, Job[Any]]) -> None:
    """The others wait for it in MPI for ever, and are ended."""
    with pytest.raises(ValueError, match="rank two is wrong") as caught:
        jobs["raise"].result(PATIENCE_S)
    assert "rank: 2" in "".join(caught.value.__notes__)
    error = jobs["kill"].exception(PATIENCE_S)
    assert isinstance(error, JobKilled)
    assert (error.facts.rank, error.facts.signal) == (3, "SIGKILL")


def test_a_program_gets_the_same_places(jobs: dict[str, Job[Any]]) -> None:
    """What is written in C or Fortran is submitted like this."""
    assert jobs["program"].results(PATIENCE_S) == [0, 0, 0, 0]
    printed = [(jobs["program"].folder / "logs" / "0" / f"{rank}.out").read_text() for rank in range(4)]
    assert printed == [f"{rank} 4 {rank} {rank}\n" for rank in range(4)]


def test_a_preempted_mpi_job_loses_no_step(jobs: dict[str, Job[Any]], module_client: Path) -> None:
    """On a SIGTERM mpirun would end its ranks at once; it never sees Slurm's, and the ranks on both nodes do."""
    for other in jobs.values():
        other.exception(PATIENCE_S)  # they would preempt it at its start
    job = submit(mpi_functions.train, 10, str(module_client), partition="low", **{**WIDE, "processes": 2})
    wait_for(lambda: all((module_client / f"at-{rank}-2").exists() for rank in range(2)), within_s=PATIENCE_S)
    first_id = job.id
    taker = submit_command(["sleep", "1"], partition="gpu", nodes=2, time=5, slurm={"exclusive": True})
    assert taker.result(PATIENCE_S) == 0
    seen = job.result(PATIENCE_S)
    first = seen.count((0, 2))
    assert seen == [(0, 2)] * first + [(1, 2)] * (10 - first)
    assert 3 <= first < 10  # the step in which it was asked, and those until all ranks had heard
    assert (job.id, job.attempt) == (first_id, 1)


def test_an_array_of_mpi_jobs_runs_with_an_interpreter_whose_path_has_a_space(
    module_client: Path,
) -> None:
    """Each element is a world of its own; mpirun takes a space for the end of a word where it starts its daemons."""
    folder = module_client / "my env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [packages] = folder.glob("lib/*/site-packages")
    (packages / "here.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    lines = (
        "from helpers import submit_array; from tests.slurm.mpi_functions import count\n"
        "print(submit_array(count, [1, 2], launcher='mpi', processes=2, nodes=2, time=10).results(timeout=240))\n"
    )
    done = subprocess.run(
        [folder / "bin" / "python", "-c", lines], capture_output=True, text=True, check=False, cwd=module_client
    )
    assert done.stdout == "[[1, 2], [2, 2]]\n", done.stderr


def test_on_this_machine_mpirun_starts_the_same_ranks(module_client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop with Open MPI; more ranks than cores."""
    monkeypatch.setenv("HELPERS_ALLOW_LOCAL", "1")  # it has a cluster for the test, and is no login node
    job = submit(mpi_functions.meet, launcher="mpi", processes=4, cluster="local")
    assert [one["mpi"] for one in job.results(PATIENCE_S)] == [(rank, 4) for rank in range(4)]


def test_srun_starts_the_ranks_where_the_setting_says_so(module_client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most clusters' Slurm can; Debian 12 lists PMIx and ships no library for it, so that it must be tried."""
    monkeypatch.setenv("HELPERS_MPI", "pmi2")
    script = str(submit(mpi_functions.meet, dry_run=True, **WIDE))
    assert "srun --ntasks=4 " in script
    assert "--mpi=pmi2" in script
    listed = subprocess.run(["srun", "--mpi=list"], capture_output=True, text=True, check=True)
    monkeypatch.delenv("HELPERS_MPI")
    chosen = str(submit(mpi_functions.meet, dry_run=True, **WIDE))
    assert "pmix" in listed.stdout + listed.stderr
    assert "helpers.runtime.mpi.node" in chosen


def test_where_nothing_starts_mpi_it_is_refused(module_client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before hours in the queue; a line of setup may bring it along."""
    bare = module_client / "bare"
    bare.mkdir()
    for name in ("sbatch", "srun", "sinfo", "scontrol", "squeue"):
        (bare / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(bare))
    with pytest.raises(InvalidRequest, match="there is no mpirun on PATH") as caught:
        submit(mpi_functions.meet, dry_run=True, **WIDE)
    assert "module load openmpi" in caught.value.hint
    made = str(submit(mpi_functions.meet, dry_run=True, setup="module load openmpi", **WIDE))
    assert "helpers.runtime.mpi.node" in made
