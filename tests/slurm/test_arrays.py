"""Sweeps and chains on a real Slurm: nothing runs twice, nothing is lost, and nothing waits for ever."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import (
    DependencyFailed,
    Job,
    JobArray,
    Rejected,
    attach,
    attach_array,
    grid,
    submit,
    submit_array,
)
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from tests.cluster import Cluster
from tests.slurm.conftest import ClusterWith, become_client
from tests.slurm.test_faults_refused import DENIED
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 150


@pytest.fixture(scope="module")
def small_arrays(cluster_with: ClusterWith) -> Cluster:
    """A cluster that allows array indexes up to 10, and has no accounting."""
    return cluster_with(max_array_size=11, accounting=False)


@pytest.fixture(autouse=True)
def folder(small_arrays: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project folder, and this process as a client of that cluster."""
    become_client(small_arrays, monkeypatch, tmp_path)
    yield tmp_path
    small_arrays.run("scancel", "--user=root", "--signal=KILL", check=False)
    small_arrays.run("scancel", "--user=root", check=False)


def starts(job: Job[Any]) -> int:
    return sum(line["event"] == "start" for line in read_ledger(RunFolder(job.folder)))


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """Return how many of the spans overlapped at the busiest moment."""
    moments = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    running, most = 0, 0
    for _, change in moments:
        running += change
        most = max(most, running)
    return most


def test_a_sweep_larger_than_the_site_allows_runs_each_item_once(folder: Path) -> None:
    """C04: the cap is on the index; the limit on what runs at a time holds over all parts."""
    jobs = submit_array(functions.span, grid(number=range(25), folder=[str(folder)]), max_running=2)
    spans = jobs.results(timeout=PATIENCE_S)
    assert [number for number, _, _ in spans] == list(range(25))
    assert most_at_once([(begin, end) for _, begin, end in spans]) <= 2
    assert {starts(job) for job in jobs} == {1}
    assert sorted(path.name for path in folder.glob("ran-*")) == sorted(f"ran-{number}" for number in range(25))


def test_an_array_is_queued_in_few_files(folder: Path) -> None:
    """Thousands of files at submission are what makes a shared file system slow."""
    jobs = submit_array(functions.add, grid(a=range(10), b=[1]), slurm={"hold": True})
    written = [path for path in jobs.folder.rglob("*") if path.is_file()]
    assert len(written) <= 10
    jobs.cancel()
    with pytest.raises(BaseException, match="cancelled"):
        jobs.results(timeout=PATIENCE_S)


def test_a_failure_hides_no_other_and_is_run_again_alone(folder: Path) -> None:
    """What failed is known with its arguments; what succeeded is not paid for twice."""
    jobs = submit_array(functions.odd_only, range(4))
    with pytest.raises(ValueError, match="0 is even"):
        jobs.results(timeout=PATIENCE_S)
    rows = [(row["arguments"], row["state"], row["result"]) for row in jobs.table()]
    assert rows == [("0", "FAILED", ""), ("1", "COMPLETED", 1), ("2", "FAILED", ""), ("3", "COMPLETED", 3)]
    again = jobs.rerun_failed()
    assert again is not None
    assert [job.description.arguments for job in again] == [["0"], ["2"]]
    assert attach_array(jobs.folder)[3].result(timeout=PATIENCE_S) == 3
    assert attach(jobs[1].id).result(timeout=PATIENCE_S) == 1


def test_a_requeue_concerns_one_element(small_arrays: Cluster, folder: Path) -> None:
    """C20: by the array's first id its siblings would start again; the last to start bears that id."""
    jobs = submit_array(functions.wait_for_file, grid(folder=[str(folder)], number=range(3)), requeue=True)
    wait_for(lambda: len(list(folder.glob("waits-*"))) == 3, lambda: small_arrays.run("squeue"), within_s=PATIENCE_S)
    last = next(job for job in jobs if (job.folder / "logs" / "batch.log").resolve().name.endswith("_2.log"))
    small_arrays.run("scontrol", "requeue", last.id)
    wait_for(lambda: starts(last) == 2, lambda: small_arrays.run("squeue"), within_s=PATIENCE_S)
    (folder / "go").touch()
    assert jobs.results(timeout=PATIENCE_S) == [0, 1, 2]
    assert [starts(job) for job in jobs] == [1, 1, 2]


def test_a_refused_part_takes_the_others_back(
    small_arrays: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a part of a sweep: the first array is queued, the second refused."""
    shim = folder / "bin" / "sbatch"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\n[ -e {folder}/once ] && {{ echo "sbatch: error: too many jobs" >&2; exit 1; }}\n'
        f'touch {folder}/once\nPATH=${{PATH#*:}} exec sbatch "$@"\n'
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    with pytest.raises(Rejected, match="too many jobs"):
        submit_array(functions.add, grid(a=range(15), b=[1]), slurm={"hold": True})
    left = small_arrays.run("squeue", "--noheader", "--states=PENDING,RUNNING").stdout
    assert left.strip() == ""
    assert list((folder / "runs" / "add").iterdir()) == []


def test_a_chain_waits_and_takes_results() -> None:
    """A job among the arguments is its result, and ``after`` orders the rest."""
    first = submit(functions.add, 1, b=2)
    second = submit(functions.add, first, b=10)
    third = submit(functions.add, 100, b=second, after=[first, second])
    assert third.result(timeout=PATIENCE_S) == 113


def test_what_waits_for_a_failure_never_starts() -> None:
    """Slurm takes it out of the queue as cancelled; its caller is told why."""
    first = submit(functions.odd_only, 2, slurm={"hold": True})
    second = submit(functions.add, first, b=1)
    os.system(f"scontrol release {first.id}")  # noqa: S605 -- the id is Slurm's number
    with pytest.raises(DependencyFailed, match="odd_only"):
        second.result(timeout=PATIENCE_S)
    assert starts(second) == 0


def test_what_waits_for_an_array_waits_for_an_elements_successor_too(small_arrays: Cluster, folder: Path) -> None:
    """Slurm counts the element that has left as a success; what waits for the array began without its work."""
    shim = folder / "bin" / "scontrol"
    shim.parent.mkdir()
    shim.write_text(DENIED)
    shim.chmod(0o755)
    jobs = submit_array(functions.save_and_leave, [1, 2], time=10, setup=[f"export PATH={shim.parent}:$PATH"])
    saved = jobs[1].folder / "checkpoints/step-00000001"
    wait_for(saved.exists, lambda: small_arrays.run("squeue"), within_s=PATIENCE_S)
    result, first_id = jobs[1].folder / "private" / "result-0.pkl", jobs[1].id
    array = first_id.partition("_")[0]
    by_hand = [
        "sbatch",
        "--parsable",
        "--output=/dev/null",
        f"--dependency=afterok:{array}",
        f"--wrap=test -e {result}",
    ]
    waits = small_arrays.run(*by_hand).stdout.strip()
    ours = submit(functions.add, jobs[0], b=jobs[1])
    small_arrays.run("scancel", "--signal=TERM", first_id)
    assert (jobs[1].result(timeout=PATIENCE_S), ours.result(timeout=PATIENCE_S), starts(jobs[1])) == (2, 3, 2)
    state = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={waits}"]
    wait_for(
        lambda: small_arrays.run(*state).stdout.strip() not in {"PENDING", "RUNNING", "COMPLETING"},
        lambda: small_arrays.run("squeue"),
        within_s=PATIENCE_S,
    )
    assert small_arrays.run(*state).stdout.strip() == "COMPLETED"
    log = (jobs.folder / "logs" / f"{first_id}.log").read_text()
    assert f"moved to it: {waits}, {ours.id}\n" in log


def test_an_array_is_a_sequence_of_jobs(folder: Path) -> None:
    """``concurrent.futures.wait`` and slices work on it."""
    jobs = submit_array(functions.add, grid(a=[1, 2], b=[10]))
    assert isinstance(jobs, JobArray)
    assert [job.result(timeout=PATIENCE_S) for job in jobs[:1]] == [11]
    assert jobs[-1].result(timeout=PATIENCE_S) == 12
