"""A rank ends as Python ends, and what hangs then does not keep the allocation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import Job, JobExited, JobKilled, ResultNotSaved, submit
from tests.unit.runtime.rank import ending_functions as functions
from tests.unit.runtime.rank import vanishing_module

PATIENCE_S = 240
TEXT = {"open": "all of it", "handled": "yes"}

Jobs = dict[str, Job[Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The caller's, for all jobs of this module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("project")
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def jobs(folder: Path) -> Jobs:
    """All of them, at the same time: what takes long here is to wait for what hangs."""
    places = {name: folder / name for name in ("open", "failed", "stopped", "slow", "thread")}
    for place in places.values():
        place.mkdir()
    return {
        "open": submit(functions.leave_open, str(places["open"]), cluster="local"),
        "failed": submit(functions.leave_open, str(places["failed"]), 3, cluster="local"),
        "stopped": submit(functions.leave_open_when_asked_to_stop, str(places["stopped"]), cluster="local"),
        "slow": submit(functions.leave_a_slow_and_a_broken_handler, str(places["slow"]), cluster="local"),
        "thread": submit(functions.leave_a_thread_and_a_handler, str(places["thread"]), cluster="local"),
        "object": submit(functions.leave_an_object_that_never_goes, cluster="local"),
        "pool": submit(functions.leave_a_pool, cluster="local"),
        "executor": submit(functions.leave_an_executor, cluster="local"),
        "child exits": submit(functions.be_killed_beside_a_child, "exits", cluster="local"),
        "child raises": submit(functions.be_killed_beside_a_child, "raises", cluster="local"),
        "child": submit(functions.wait_for_a_child_that_exits, 7, cluster="local"),
        "rank 0": submit(functions.vanish_in_rank, 0, processes=2, cluster="local"),
        "rank 1": submit(functions.vanish_in_rank, 1, processes=2, cluster="local"),
        "import": submit(vanishing_module.wait_long, processes=2, cluster="local"),
        "umask": submit(functions.deny_all, cluster="local"),
        "disk": submit(functions.return_more_than_the_disk_takes, cluster="local"),
        "256": submit(functions.leave_with, 256, cluster="local"),
    }


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def ended(job: Job[Any]) -> tuple[Any, str]:
    return job.result(PATIENCE_S), job.state


def test_open_files_and_handlers_come_to_their_end(jobs: Jobs, folder: Path) -> None:
    """The file had no byte, and what ``atexit`` was to send was never sent, of a job that was COMPLETED."""
    assert (ended(jobs["open"]), written(folder / "open")) == ((None, "COMPLETED"), TEXT)


def test_they_do_so_in_a_function_that_failed(jobs: Jobs, folder: Path) -> None:
    """That is when somebody wants to read them."""
    error = jobs["failed"].exception(PATIENCE_S)
    assert isinstance(error, JobExited)
    assert (error.facts.exit_code, written(folder / "failed")) == (3, TEXT)


def test_they_do_so_when_the_scheduler_waits(jobs: Jobs, folder: Path) -> None:
    """Without the interpreter's own end, which costs a part of the grace."""
    assert (ended(jobs["stopped"]), written(folder / "stopped")) == ((None, "COMPLETED"), TEXT)


def test_a_handler_that_hangs_or_raises_is_cut_off_and_named(jobs: Jobs, folder: Path) -> None:
    """The other handlers run all the same, and the job has succeeded."""
    assert (ended(jobs["slow"]), written(folder / "slow")) == ((42, "COMPLETED"), {"handled": "yes"})
    logs = jobs["slow"].logs()
    assert "atexit handlers took more than 1 s; cut off:" in logs
    assert "<built-in function sleep>" in logs
    assert "ZeroDivisionError" in logs


def test_a_thread_that_never_ends_does_not_keep_handlers_from_running(jobs: Jobs, folder: Path) -> None:
    """C16: it is named, and cut off."""
    assert (ended(jobs["thread"]), written(folder / "thread")) == ((42, "COMPLETED"), {"handled": "yes"})
    assert "Still alive when the function ended, and ended with it: forgotten" in jobs["thread"].logs()


def test_an_interpreter_that_hangs_is_ended_with_its_exit_code(jobs: Jobs) -> None:
    """No Python runs then that could notice."""
    assert ended(jobs["object"]) == (42, "COMPLETED")
    assert "in __del__" in jobs["object"].logs()


def test_an_executor_that_was_not_shut_down_is_no_leftover(jobs: Jobs) -> None:
    """Its threads end when Python tells them to."""
    assert (ended(jobs["executor"]), "Still alive" in jobs["executor"].logs()) == ((42, "COMPLETED"), False)


def test_a_pool_that_was_not_closed_ends_its_workers(jobs: Jobs) -> None:
    """It waits for ever for a lock of a worker that was killed before."""
    assert (ended(jobs["pool"]), "cut off" in jobs["pool"].logs()) == ((42, "COMPLETED"), False)


@pytest.mark.parametrize("name", ["child exits", "child raises"])
def test_a_forked_child_does_not_report_for_the_rank(jobs: Jobs, name: str) -> None:
    """The parent was killed after that, and the job was COMPLETED without a result."""
    assert isinstance(jobs[name].exception(PATIENCE_S), JobKilled)


def test_a_forked_child_ends_with_its_own_exit_code(jobs: Jobs) -> None:
    """Its parent looks at it."""
    assert jobs["child"].result(PATIENCE_S) == 7


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_vanishes_with_exit_code_0_ends_the_others_and_is_named(jobs: Jobs, rank: int) -> None:
    """The others waited for it until the time limit."""
    error = jobs[f"rank {rank}"].exception(PATIENCE_S)
    assert isinstance(error, JobExited)
    assert error.facts.rank == rank
    assert "os._exit(0)" in str(error)


def test_so_does_one_that_vanishes_when_the_module_of_the_function_is_imported(jobs: Jobs) -> None:
    """Nothing had been called yet, and the others trained on, or waited for it."""
    error = jobs["import"].exception(PATIENCE_S)
    assert isinstance(error, JobExited)
    assert (error.facts.rank, "os._exit(0)" in str(error)) == (1, True)


def test_a_umask_that_denies_everything_does_not_hide_the_result(jobs: Jobs) -> None:
    """It could not be read by who had computed it."""
    assert ended(jobs["umask"]) == (42, "COMPLETED")
    assert (jobs["umask"].folder / "private" / "result-0.pkl").stat().st_mode & 0o777 == 0o600


def test_a_value_that_the_disk_does_not_take_is_told_with_its_reason(jobs: Jobs) -> None:
    """It was said to be one that cannot be pickled."""
    error = jobs["disk"].exception(PATIENCE_S)
    assert isinstance(error, ResultNotSaved)
    assert "result-0.pkl: File too large" in error.message
    assert error.hint == f"make room, then submit again: df -h {jobs['disk'].folder}"


def test_a_failure_is_one_to_the_system_too(jobs: Jobs) -> None:
    """Of 256 a process's end keeps the last byte, 0: to Slurm the job was COMPLETED."""
    error = jobs["256"].exception(PATIENCE_S)
    assert isinstance(error, JobExited)
    assert (error.facts.exit_code, "SystemExit: 256" in jobs["256"].reason) == (1, True)
