"""How jobs load data: threads and workers of their own CPUs (handed case C29), and one copy of the data a node."""

import os
from pathlib import Path
from typing import Any

import pytest

from helpers import Job, submit, submit_command
from tests.slurm import loading_functions

PATIENCE_S = 240
USABLE_CPUS = len(os.sched_getaffinity(0))
NODES = 2
RANKS = 4


@pytest.fixture(scope="module")
def jobs(module_client: Path) -> dict[str, Job[Any]]:
    """Jobs that the tests look at."""
    (module_client / "images").mkdir()
    (module_client / "images/cat.txt").write_text("cat")
    tell, stage = loading_functions.threads_and_workers, loading_functions.stage_on_each_node
    folders = (str(module_client / "images"), str(module_client / "disks"))
    started: dict[str, Job[Any]] = {
        "staging": submit(stage, *folders, nodes=NODES, processes=RANKS, cpus=1, time=10),
        "one cpu": submit(tell, cpus=1, time=10),
        "two cpus, two processes": submit(tell, cpus=2, processes=2, time=10),
        "program": submit_command(["sh", "-c", "echo threads=$OMP_NUM_THREADS,$MKL_NUM_THREADS"], cpus=2, time=10),
        "fork server": submit(loading_functions.leave_a_fork_server, cpus=1, time=10),
        "outside Slurm": submit(tell, cluster="local"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "3")
        started["the user's threads"] = submit(tell, cpus=1, time=10)
    return started


def test_each_node_gets_one_copy_whoever_makes_it(jobs: dict[str, Job[Any]], module_client: Path) -> None:
    """Each rank would read all data from the shared disk, and fill the node's."""
    results = jobs["staging"].results(PATIENCE_S)
    assert {text for _, _, text in results} == {"cat"}
    assert len({node for node, _, _ in results}) == len({copy for _, copy, _ in results}) == NODES
    assert len(list((module_client / "disks").rglob("cat.txt"))) == NODES
    assert jobs["staging"].logs().count("1 files, 3 B, done in") == NODES


def test_threads_and_workers_are_those_of_the_process(jobs: dict[str, Job[Any]]) -> None:
    """A node of 64 CPUs would give 64 of each to a job of one (mteb #1331)."""
    two = min(2, USABLE_CPUS)
    assert jobs["one cpu"].result(PATIENCE_S) == (["1"] * 4, 1, 1)
    assert jobs["two cpus, two processes"].results(PATIENCE_S) == [([str(two)] * 4, two, 1)] * 2


def test_outside_slurm_they_follow_the_affinity(jobs: dict[str, Job[Any]]) -> None:
    """That is what this machine lets the process use."""
    expected = ([str(USABLE_CPUS)] * 4, USABLE_CPUS, max(1, USABLE_CPUS - 1))
    assert jobs["outside Slurm"].result(PATIENCE_S) == expected


def test_the_users_own_number_wins_over_all_of_them(jobs: dict[str, Job[Any]]) -> None:
    """One that is set is meant for the others too: they follow it, or the user knows why not."""
    variables, _, workers = jobs["the user's threads"].result(PATIENCE_S)
    assert (variables, workers) == (["3", None, None, None], 1)


def test_a_program_gets_its_threads_too(jobs: dict[str, Job[Any]]) -> None:
    """R and Julia's libraries count the node's CPUs as NumPy does."""
    jobs["program"].result(PATIENCE_S)
    two = min(2, USABLE_CPUS)
    assert f"threads={two},{two}" in jobs["program"].logs()


def test_a_fork_server_is_no_leftover(jobs: dict[str, Job[Any]]) -> None:
    """It ends with the process that it serves; it was reported, and ended after a wait, in each job on a GPU."""
    running = jobs["fork server"].result(PATIENCE_S)
    assert [words for words in running if "multiprocessing.forkserver" in words] != []
    assert "still alive when the function ended" not in jobs["fork server"].logs()
