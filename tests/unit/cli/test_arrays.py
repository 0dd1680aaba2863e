"""A sweep is one line among the runs, and each of its elements a job."""

from collections.abc import Callable

from typer.testing import Result

from helpers import grid, submit_array
from tests.unit.submission import functions

Command = Callable[..., Result]


def test_an_array_is_one_row_with_the_count_of_its_elements(command: Command) -> None:
    """A thousand rows would hide everything else."""
    jobs = submit_array(functions.odd_only, range(3), cluster="local")
    assert [job.exception(timeout=60) is None for job in jobs] == [False, True, False]
    done = command("status")
    rows = [line for line in done.stdout.splitlines() if "odd_only" in line]
    assert len(rows) == 1
    assert "FAILED" in rows[0]
    assert "3 elements: 1 completed, 2 failed" in rows[0]


def test_an_element_is_found_by_its_id(command: Command) -> None:
    """As any other job."""
    jobs = submit_array(functions.add, grid(a=[1, 2], b=[3]), cluster="local")
    assert jobs.results(timeout=60) == [4, 5]
    assert command("status", jobs[1].id).exit_code == 0
    assert "adding" in command("logs", jobs[1].id).stdout
