"""Old runs: which are listed, which are never removed, and what goes with them."""

import os
import time
from pathlib import Path

import pytest

from helpers import Executor, InvalidRequest, Job
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, Status, write_status
from helpers.submission.jobs.attach import all_runs
from helpers.submission.jobs.cleaning import (
    OldRun,
    find_old_runs,
    parse_age_s,
    parse_size,
    remove,
    select,
    size_of,
    unused_snapshots,
)
from tests.unit.submission import functions

LOCAL = Executor(cluster="local")
DAY_S = 86400


@pytest.fixture
def ended() -> Job[float]:
    """A run that has ended well."""
    job = LOCAL.submit(functions.add, 1, b=2)
    assert job.result(240) == 3
    return job


def old(**facts: object) -> OldRun:
    defaults = {
        "folder": Path("/r"),
        "name": "r",
        "job_id": "1",
        "state": State.FAILED,
        "ended": time.time(),
        "size": 0,
    }
    return OldRun(**{**defaults, **facts})  # type: ignore[arg-type]


def test_an_array_stays_whose_element_a_waiting_run_needs() -> None:
    """Its result would be gone when the run begins."""
    jobs = LOCAL.map(functions.add, [1, 2])
    assert jobs.results(240) == [1, 2]
    waiting = Executor(cluster="local", after=jobs[1]).submit(functions.sleep, 60)
    assert find_old_runs(all_runs(Path.cwd())) == []
    waiting.cancel()
    assert waiting.exception(240)
    assert len(find_old_runs(all_runs(Path.cwd()))) == 2


@pytest.mark.parametrize("text", ["", "{", '{"run_id": "1"}'])
def test_a_run_that_cannot_be_read_stays_and_hides_no_other(ended: Job[float], text: str) -> None:
    """A machine that lost power has left half a file."""
    broken = ended.folder.with_name("broken")
    broken.mkdir()
    (broken / "run.json").write_text(text)
    folders = [broken, ended.folder]
    assert [one.folder for one in find_old_runs(folders)] == [ended.folder]
    assert unused_snapshots(ended.folder.parent.parent, folders) == []


def test_a_run_that_has_not_ended_is_not_listed(ended: Job[float]) -> None:
    """Neither one that runs, nor one that waits, nor one whose end nobody knows."""
    running = LOCAL.submit(functions.sleep, 600)
    write_status(RunFolder(ended.folder), Status(state=State.REQUEUED, job_id="1", attempt=0))
    assert find_old_runs([running.folder, ended.folder]) == []
    running.cancel()
    running.exception(240)


def test_a_run_that_a_waiting_one_needs_is_not_listed(ended: Job[float]) -> None:
    """Its result is an argument."""
    waiting = Executor(cluster="local", after=[LOCAL.submit(functions.sleep, 600)]).submit(functions.add, ended)  # type: ignore[arg-type]
    assert ended.folder not in [run.folder for run in find_old_runs(all_runs(Path.cwd()))]
    for folder in all_runs(Path.cwd()):
        (folder / "cancelled").touch()
    assert waiting.exception(240)


def test_a_removed_run_leaves_nothing(ended: Job[float]) -> None:
    """No folder, no name that leads to it."""
    (found,) = find_old_runs(all_runs(Path.cwd()))
    assert (found.job_id, found.state, found.size > 1000) == (ended.id, State.COMPLETED, True)
    remove(found)
    assert [path.name for path in Path("runs").iterdir() if path.name != ".snapshots"] == [".jobs"]
    assert list(Path("runs/.jobs").iterdir()) == []


def test_a_run_that_was_taken_up_meanwhile_stays(ended: Job[float]) -> None:
    """Between the list and the answer to the question hours may pass."""
    (found,) = find_old_runs(all_runs(Path.cwd()))
    (ended.folder / "resuming").touch()
    with pytest.raises(InvalidRequest, match="taken up again"):
        remove(found)
    assert ended.folder.exists()


def test_an_array_is_old_when_all_its_elements_are() -> None:
    """And is what its worst element is."""
    jobs = LOCAL.map(functions.odd_only, [1, 2])
    for job in jobs:
        job.exception(240)
    (found,) = find_old_runs(all_runs(Path.cwd()))
    assert (found.state, found.folder) == (State.FAILED, jobs.folder)
    remove(found)
    assert list(Path("runs/.jobs").iterdir()) == []


def test_runs_are_selected_by_all_that_is_given() -> None:
    """Old and large and failed."""
    month, huge = time.time() - 30 * DAY_S, 2**40
    runs = [old(ended=month), old(size=huge), old(ended=month, size=huge, state=State.COMPLETED)]
    assert select(runs, older_s=29 * DAY_S) == [runs[0], runs[2]]
    assert select(runs, larger=2**30) == runs[1:]
    assert select(runs, older_s=29 * DAY_S, larger=2**30, states=["completed"]) == runs[2:]
    with pytest.raises(InvalidRequest, match=r"RUNNING(.|\n)*one of: COMPLETED"):
        select(runs, states=["running"])


def test_snapshots_go_when_no_run_needs_them(ended: Job[float]) -> None:
    """But not one that a submission may be about to use."""
    snapshots = Path("runs/.snapshots")
    for name in ("stale", "fresh"):
        (snapshots / name).mkdir(parents=True)
    os.utime(snapshots / "stale", (1, 1))
    assert [path.name for path in unused_snapshots(Path("runs"), [ended.folder])] == ["stale"]


def test_a_file_with_two_names_takes_its_place_once(tmp_path: Path) -> None:
    """Snapshots share files."""
    folder = tmp_path / "sized"
    folder.mkdir()
    (folder / "a").write_bytes(b"x" * 2**20)
    os.link(folder / "a", folder / "b")
    assert 2**20 <= size_of(folder) < 2**20 + 2**17


def test_ages_and_sizes_are_read() -> None:
    """In the forms that people write."""
    assert [parse_age_s(text) for text in ("30d", "12h", "2 weeks")] == [30 * DAY_S, 12 * 3600, 14 * DAY_S]
    assert [parse_size(text) for text in ("10G", "1.5M", "2TiB")] == [10 * 2**30, 1.5 * 2**20, 2 * 2**40]
    for parse in (parse_age_s, parse_size):
        with pytest.raises(InvalidRequest, match="got '30'"):
            parse("30")
