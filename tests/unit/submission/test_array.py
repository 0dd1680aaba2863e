"""A sweep on this machine: the same call, the same jobs, a few at a time."""

import itertools
import time
from pathlib import Path

import pytest

from helpers import InvalidRequest, JobCancelled, attach_array, call, grid, submit_array
from helpers.submission.array import Table
from tests.unit.submission import functions

PATIENCE_S = 60


def test_results_come_in_the_order_of_the_items(project: Path) -> None:
    """Whichever ends first."""
    jobs = submit_array(functions.add, [call(1, b=1), call(5, b=5)], cluster="local")
    assert jobs.results(timeout=PATIENCE_S) == [2, 10]
    assert [job.folder.name for job in jobs] == ["0", "1"]
    assert attach_array(jobs.folder).results(timeout=PATIENCE_S) == [2, 10]


def test_no_more_run_at_a_time_than_allowed(project: Path) -> None:
    """A workstation is shared, too."""
    spans = submit_array(
        functions.span, grid(number=range(3), folder=[str(project)]), max_running=1, cluster="local"
    ).results(timeout=PATIENCE_S)
    assert all(first[2] <= second[1] for first, second in itertools.pairwise(spans))


def test_an_element_that_waits_can_be_cancelled(project: Path) -> None:
    """It never begins, and the others go on."""
    jobs = submit_array(
        functions.wait_for_file, grid(folder=[str(project)], number=range(2)), max_running=1, cluster="local"
    )
    while not (project / "waits-0").exists():
        time.sleep(0.05)
    jobs[1].cancel()
    (project / "go").touch()
    with pytest.raises(JobCancelled):
        jobs[1].result(timeout=PATIENCE_S)
    assert jobs[0].result(timeout=PATIENCE_S) == 0
    assert not (project / "waits-1").exists()


def test_an_argument_that_does_not_fit_stops_the_whole_sweep(project: Path) -> None:
    """The hundredth item is checked before the first is queued."""
    with pytest.raises(InvalidRequest, match="unexpected keyword"):
        submit_array(functions.add, [call(1, b=2), call(1, c=2)], cluster="local")
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_the_limit_is_a_whole_number(value: object) -> None:
    """``%0`` would hold the array for ever."""
    with pytest.raises(InvalidRequest, match="max_running"):
        submit_array(functions.add, [call(1, b=2)], max_running=value, cluster="local")  # type: ignore[arg-type]


def test_inline_runs_one_after_another(project: Path) -> None:
    """For a debugger."""
    assert submit_array(functions.add, grid(a=[1, 2], b=[3]), cluster="inline").results() == [4, 5]


def test_a_table_prints_in_columns() -> None:
    """To be read at a glance."""
    table = Table([{"element": 0, "cause": ""}, {"element": 10, "cause": "ValueError: x"}])
    assert str(table) == "element  cause\n0\n10       ValueError: x"
