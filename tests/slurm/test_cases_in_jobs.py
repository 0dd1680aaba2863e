"""What happened to people inside their jobs: threads, leftovers, set-up, ranks that end apart, jobs that submit jobs.

All jobs are submitted at once; the tests look at what became of them.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from helpers import Job, JobArray, SetupFailed, submit, submit_array
from tests.cluster import Cluster
from tests.slurm import case_functions
from tests.slurm.conftest import Command
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240
ODD_FOLDER = "My Project (v2) lr=0.1 é 50%"
USABLE_CPUS = len(os.sched_getaffinity(0))
SETUP = {
    "export": 'export FOO="bar baz"',
    "no file": "source /nonexistent.sh",
    "no hook": "conda activate x",
    "much output": "seq 1 20000",
    "unset variable": 'echo "it is <$NOT_SET_ANYWHERE>"',
}


@pytest.fixture(scope="module")
def jobs(module_client: Path) -> dict[str, Job[Any]]:
    """Jobs that the tests look at."""
    read, threads = functions.read_variable, case_functions.threads
    started = {
        "loader": submit(case_functions.leave_a_loader, cpus=1, name="loader"),
        **{name: submit(read, "FOO", setup=line, name=name) for name, line in SETUP.items()},
        "one cpu": submit(threads, cpus=1),
        "two cpus, two processes": submit(threads, cpus=2, processes=2),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "3")
        started["the user's threads"] = submit(threads, cpus=1)
    return started


@pytest.fixture(scope="module")
def nested(module_client: Path) -> JobArray[Any]:
    """An array each of whose elements submits a job of another shape."""
    return submit_array(functions.submit_inside, [40, 41], cpus=1, time=10)


def result(jobs: dict[str, Job[Any]], name: str) -> Any:
    return jobs[name].result(PATIENCE_S)


def test_each_element_of_an_array_can_submit_a_job_of_another_shape(
    jobs: dict[str, Job[Any]], nested: JobArray[Any]
) -> None:
    """The inner job took the element's id, CPUs and memory, and wrote into its files."""
    inner = nested.results(timeout=PATIENCE_S)
    assert [(one["value"], one["cpus"], one["mem"]) for one in inner] == [(41, "2", "300"), (42, "2", "300")]
    assert [one["id"] == one["inner_id"] != one["outer_id"] for one in inner] == [True, True]
    assert len({one["id"] for one in inner}) == 2
    assert [one["unchanged"] for one in inner] == [True, True]


def test_the_workers_of_a_loader_do_not_hold_the_job(jobs: dict[str, Job[Any]], cluster: Cluster) -> None:
    """Persistent workers outlive the function; the allocation stayed until its time limit."""
    value, _, pids = result(jobs, "loader")
    words = ["squeue", "--noheader", f"--jobs={jobs['loader'].id}", "--states=running,completing"]
    wait_for(lambda: not cluster.run(*words, check=False).stdout.strip())
    assert (value, len(pids) >= 2, [pid for pid in pids if Path(f"/proc/{pid}").exists()]) == (42, True, [])
    assert "Child processes still alive when the function ended: 1; ended." in jobs["loader"].logs()


def test_threads_are_those_of_the_cpus_that_were_asked_for(jobs: dict[str, Job[Any]]) -> None:
    """This cluster binds no CPUs, as many do not: a job of one CPU started a thread for each of the machine's."""
    assert result(jobs, "one cpu") == "1"
    assert jobs["two cpus, two processes"].results(PATIENCE_S) == [str(min(2, USABLE_CPUS))] * 2
    assert result(jobs, "loader")[1] == 1  # torch goes by it


def test_the_users_own_number_of_threads_wins(jobs: dict[str, Job[Any]]) -> None:
    """It is known to be the best for this program."""
    assert result(jobs, "the user's threads") == "3"


@pytest.mark.parametrize(
    ("name", "words"),
    [("no file", "/nonexistent.sh: No such file or directory"), ("no hook", "conda: command not found")],
)
def test_a_set_up_line_that_fails_is_shown_with_the_shells_words(
    jobs: dict[str, Job[Any]], name: str, words: str
) -> None:
    """It scrolled by, and the function ran in the wrong environment."""
    error = jobs[name].exception(PATIENCE_S)
    assert isinstance(error, SetupFailed)
    assert SETUP[name] in str(error)
    assert words in str(error)
    assert Path(error.facts.log or "").is_file()


def test_what_set_up_exports_reaches_the_function(jobs: dict[str, Job[Any]]) -> None:
    """Quoted as in any shell."""
    assert result(jobs, "export") == "bar baz"


def test_a_set_up_line_may_print_much_and_read_what_is_not_set(jobs: dict[str, Job[Any]]) -> None:
    """Neither confuses the logs or the result; an unset variable is empty, as documented."""
    assert (result(jobs, "much output"), result(jobs, "unset variable")) == (None, None)
    assert "\n19999\n20000\n" in jobs["much output"].logs()
    assert "it is <>\n" in jobs["unset variable"].logs()


def test_ranks_may_end_far_apart_and_status_says_so(module_client: Path, tmp_path: Path, command: Command) -> None:
    """The one that goes on is not cut short, and who waits for rank 0 sees what the job waits for."""
    job = submit(case_functions.until_told, str(tmp_path), from_rank=1, processes=2)
    wait_for((job.folder / "attempts/0/rank-0.json").exists)
    assert "1 of 2 ranks have ended; the job ends with the last" in command("status", job.id).stdout
    (tmp_path / "go").touch()
    assert job.results(PATIENCE_S) == [0, 1]


def test_a_requeue_works_in_a_folder_of_odd_characters(
    cluster: Cluster, module_client: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs, run folder and script are found again by the second attempt, which runs the set-up again."""
    folder = module_client / ODD_FOLDER
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    jobs = {}
    for name in ("one", "two words"):
        (tmp_path / name).mkdir()
        function, told = case_functions.until_told, str(tmp_path / name)
        jobs[name] = submit(function, told, requeue=True, setup="echo set up", name=name)
    requeue_once(cluster, {tmp_path / name: job for name, job in jobs.items()})
    for name, job in jobs.items():
        (tmp_path / name / "go").touch()
        assert (job.result(PATIENCE_S), job.attempt, job.logs().count("set up\n")) == (0, 1, 2)
        assert job.folder.is_relative_to(folder / "runs" / name)
    assert [path.name for path in folder.iterdir()] == ["runs"]


def requeue_once(cluster: Cluster, jobs: dict[Path, Job[Any]]) -> None:
    """Requeue jobs once they run, and return when they run again; each tells so in a folder of its own."""
    for folder, job in jobs.items():
        wait_for((folder / "runs-0-0").exists)
        cluster.run("scontrol", "requeue", job.id)
    for folder in jobs:
        wait_for((folder / "runs-1-0").exists)


def test_jobs_of_several_processes_meet_apart_on_one_node(
    cluster: Cluster, module_client: Path, tmp_path: Path
) -> None:
    """Two at once on the same node, and one of them once more after a requeue: no port is given, none is in use."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    pair = [submit(case_functions.sum_of_ranks, str(folder), processes=2, requeue=True) for folder in folders]
    wait_for(lambda: all((folder / "runs-0-0").exists() for folder in folders))  # both have met, and hold their ports
    requeue_once(cluster, {folders[0]: pair[0]})
    for folder in folders:
        (folder / "go").touch()
    assert [job.results(PATIENCE_S) for job in pair] == [[3.0, 3.0], [3.0, 3.0]]
    assert [job.attempt for job in pair] == [1, 0]


@pytest.mark.full
def test_jobs_of_several_processes_run_back_to_back(module_client: Path, tmp_path: Path) -> None:
    """A port that the one before has just left, or that comes from the job's id, is in use still."""
    (tmp_path / "go").touch()
    jobs = [submit(case_functions.sum_of_ranks, str(tmp_path), processes=2) for _ in range(6)]
    assert [job.result(PATIENCE_S) for job in jobs] == [3.0] * 6
