"""A job waits for others by their own record of how they ended."""

from pathlib import Path

import pytest

from helpers import DependencyFailed, InvalidRequest, submit
from tests.unit.submission import functions

PATIENCE_S = 60


def test_a_job_as_an_argument_is_its_result(project: Path) -> None:
    """A pipeline is written as calls of functions are."""
    first = submit(functions.add, 1, b=2, cluster="local")
    assert submit(functions.add, first, b=first, cluster="local").result(timeout=PATIENCE_S) == 6


def test_what_waits_for_a_failure_does_not_begin(project: Path) -> None:
    """And says for which."""
    first = submit(functions.odd_only, 2, cluster="local")
    second = submit(functions.add, 1, b=2, after=first, cluster="local")
    with pytest.raises(DependencyFailed, match="odd_only: FAILED"):
        second.result(timeout=PATIENCE_S)


def test_a_failure_of_the_past_is_refused_at_once(project: Path) -> None:
    """Slurm, which has forgotten it, would call it a success."""
    first = submit(functions.odd_only, 2, cluster="local")
    assert isinstance(first.exception(timeout=PATIENCE_S), ValueError)
    with pytest.raises(InvalidRequest, match="has ended: FAILED"):
        submit(functions.add, 1, b=2, after=[first.id], cluster="local")


@pytest.mark.parametrize("after", [3.5, object(), {"a": 1}, [None, 2.5]])
def test_what_is_no_job_is_refused(after: object) -> None:
    """By its value."""
    with pytest.raises(InvalidRequest, match="after is a job"):
        submit(functions.add, 1, b=2, after=after, cluster="local")


def test_a_success_of_the_past_is_not_waited_for(project: Path) -> None:
    """``afterok`` of a job that the controller has forgotten would be refused."""
    first = submit(functions.add, 1, b=2, cluster="local")
    assert first.result(timeout=PATIENCE_S) == 3
    preview = submit(functions.add, first, b=1, after=first, cluster="slurm", dry_run=True)
    assert "dependency" not in str(preview)
