"""A job waits for others by their own record of how they ended."""

from pathlib import Path

import pytest

from helpers import DependencyFailed, InvalidRequest, attach, call, submit, submit_array
from helpers.runtime.run.folder import RunFolder
from tests.unit.submission import functions

PATIENCE_S = 240


def test_a_job_as_an_argument_is_its_result(project: Path) -> None:
    """A pipeline is written as calls of functions are."""
    first = submit(functions.add, 1, b=2, cluster="local")
    second = submit(functions.add, first, b=first, cluster="local")
    assert second.result(timeout=PATIENCE_S) == 6
    assert second.description.arguments == [f"<result of {first.id}>", f"b=<result of {first.id}>"]


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


def test_a_job_is_named_by_its_folder_or_by_a_number(project: Path) -> None:
    """A path was refused; the id of a Slurm job is a number to whoever reads ``squeue``."""
    first = submit(functions.add, 1, b=2, cluster="local")
    assert submit(functions.add, 1, b=2, after=first.folder, cluster="local").result(timeout=PATIENCE_S) == 3
    with pytest.raises(InvalidRequest, match="There is no run '4711'"):
        attach(4711)
    with pytest.raises(InvalidRequest, match="There is no run '4711'"):
        submit(functions.add, 1, b=2, after=4711, cluster="local")


def test_an_array_is_waited_for_by_its_id_or_folder(project: Path) -> None:
    """As by its jobs: every element counts, and the one that failed is named."""
    good = submit_array(functions.odd_only, [1, 3], cluster="local")
    last = submit(functions.add, 1, b=2, after=good.folder, cluster="local")
    assert last.description.after == [str(job.folder) for job in good]
    assert last.result(timeout=PATIENCE_S) == 3

    bad = submit_array(functions.odd_only, [1, 2], cluster="local")
    assert isinstance(bad[1].exception(timeout=PATIENCE_S), ValueError)
    with pytest.raises(InvalidRequest, match=rf"Job {bad[1].id} .* has ended: FAILED"):
        submit(functions.add, 1, b=2, after=bad[0].id.removesuffix("_0"), cluster="local")


def test_an_array_that_was_not_queued_whole_is_not_waited_for(project: Path) -> None:
    """What is missing would count as success."""
    array = submit_array(functions.odd_only, [1, 3], cluster="local")
    array.results(timeout=PATIENCE_S)
    RunFolder(array.folder).ledger.write_text("")
    with pytest.raises(InvalidRequest, match="0 of 2 jobs were queued"):
        submit(functions.add, 1, 2, cluster="local", after=array.folder)


def test_an_array_is_no_argument(project: Path) -> None:
    """It cannot be pickled, said Python; and nobody would have waited for it."""
    jobs = submit_array(functions.add, [call(1, b=2)], cluster="local")
    with pytest.raises(InvalidRequest, match=r"got an array of 1 jobs(.|\n)*submit\(merge, \*jobs\)"):
        submit(functions.add, jobs, b=2, cluster="local")
    assert jobs.results(timeout=PATIENCE_S) == [3]
