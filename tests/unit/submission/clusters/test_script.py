"""The scripts as a whole, compared with files that a person has read."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers import InvalidRequest
from helpers.runtime.run.folder import RunFolder
from helpers.submission.clusters import slurm_executor
from helpers.submission.clusters.script import local_script, log_path, slurm_script
from helpers.submission.clusters.slurm_executor import RunExecutor
from helpers.submission.resources.request import read_request
from helpers.submission.surroundings import Surroundings

GOLDEN = Path(__file__).parent / "golden"
RUN = RunFolder(Path("/runs/it's 50%/1"))
HERE = Surroundings(python="/env/bin/python", version="3.11.7")
SETUP = ["module load cuda", 'export FOO="bar baz"']


def batch_script(monkeypatch: pytest.MonkeyPatch, *, requeue: bool = True, **asked: Any) -> str:
    monkeypatch.setattr(slurm_executor, "working_directory", lambda: Path("/projects/my net"))
    resources = read_request(**asked).settle()
    executor = RunExecutor(RUN, resources, name="it's 50%", requeue=requeue)
    return executor.script_text(slurm_script(RUN, resources, surroundings=HERE, setup=SETUP))


FULL = {
    "gpus": "a100:4",
    "nodes": 2,
    "cpus": 4,
    "mem": "64G",
    "time": "8h",
    "partition": "gpu",
    "account": "vision",
    "slurm": {"mail_type": "END", "kill-on-invalid-dep": "yes"},
}


def test_the_batch_script_is_the_one_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every character of it counts, and submitit writes a part of it."""
    assert batch_script(monkeypatch, **FULL) == (GOLDEN / "slurm.sh").read_text()


def test_the_local_script_is_the_one_that_was_read() -> None:
    """It ends in ``exec``, so that the supervisor has the id that the caller was told."""
    assert local_script(RUN, surroundings=HERE, setup=[]) == (GOLDEN / "local.sh").read_text()


@pytest.mark.parametrize("name", ["slurm.sh", "local.sh"])
def test_bash_reads_the_scripts_without_complaint(name: str) -> None:
    """A golden file with a syntax error would keep it for ever."""
    done = subprocess.run(["bash", "-n", GOLDEN / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_not_asked_for_is_left_to_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's defaults for time, memory and partition are better than any of ours."""
    lines = batch_script(monkeypatch).splitlines()
    options = {line.removeprefix("#SBATCH --").partition("=")[0] for line in lines if line.startswith("#SBATCH")}
    assert options == {
        *("chdir", "job-name", "kill-on-invalid-dep", "nodes", "ntasks-per-node", "open-mode", "output"),
        *("requeue", "signal"),
    }


def test_a_job_that_must_not_come_back_says_so_to_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """``JobRequeue=1`` is the default of many sites."""
    assert "#SBATCH --no-requeue\n" in batch_script(monkeypatch, requeue=False)


def test_none_removes_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old Slurm may not know an option that we write."""
    assert "kill-on-invalid-dep" not in batch_script(monkeypatch, slurm={"kill_on_invalid_dep": None})


def test_a_backslash_in_a_logs_path_is_refused() -> None:
    """To Slurm it turns off all patterns, so that all ranks would write into a file called ``%t.out``."""
    with pytest.raises(InvalidRequest, match="backslash"):
        log_path(Path("/runs/a\\b"))
