"""Jobs on a machine without Slurm, whose GPUs they lease one from the other."""

import os
import time
from pathlib import Path

import pytest

from helpers import Executor, InvalidRequest, JobCancelled, call, submit, submit_array
from helpers.runtime.run.status import read_ledger
from tests.gpu_driver.cards import Cards
from tests.unit.submission import gpu_functions
from tests.waiting import wait_for

PATIENCE_S = 240


def test_six_jobs_on_two_gpus_never_share_one(cards: Cards, tmp_path: Path) -> None:
    """And each sees one, by its UUID."""
    cards.number(2)
    one_gpu = Executor(gpus=1, cluster="local")
    jobs = [one_gpu.submit(gpu_functions.hold, str(tmp_path), 0.2) for _ in range(6)]
    seen = [job.result(PATIENCE_S) for job in jobs]
    assert set(seen) <= {"GPU-0", "GPU-1"}
    ledgers = [[line["gpus"] for line in read_ledger(job._files) if line["event"] == "leased"] for job in jobs]
    assert ledgers == [[[uuid]] for uuid in seen]


def test_who_waits_says_for_whom_and_none_of_its_time_limit_passes(cards: Cards, tmp_path: Path) -> None:
    """PENDING with the reason, in its log too; then it runs."""
    cards.number(1)
    first = submit(gpu_functions.wait_for_file, str(tmp_path / "go"), gpus=1, cluster="local")
    wait_for(lambda: list(first.folder.glob("attempts/*/started-0")))
    second = submit(gpu_functions.tell_end, str(tmp_path), gpus=1, time="1h", cluster="local")
    wait_for(lambda: second.state == "PENDING")
    wait_for(lambda: f"GPU 0 is held by job {first.id} of " in second.reason)
    wait_for(lambda: "waits for 1 GPU of this machine" in second.logs())
    time.sleep(3)
    (tmp_path / "go").touch()
    assert first.result(PATIENCE_S) == "GPU-0"
    end = second.result(PATIENCE_S)
    times = {line["event"]: line["time"] for line in read_ledger(second._files)}
    assert end >= times["start"] + 3600 + (times["leased"] - times["waits"]) - 2  # ends are whole seconds


def test_a_job_that_waits_can_be_cancelled(cards: Cards) -> None:
    """It has a place in the queue, and gives it up."""
    cards.are([{"uuid": "GPU-0", "processes": [[1, 900]]}])
    job = submit(gpu_functions.hold, "/", 0, gpus=1, cluster="local")
    wait_for(lambda: "used without a lease by pid 1 of root with 900 MiB" in job.reason)
    job.cancel()
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)
    assert job.reason == "while it waited for GPUs"


def test_the_callers_variable_says_among_which(cards: Cards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user keeps some of the machine's GPUs out of it."""
    cards.number(4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2, 3")
    job = submit(gpu_functions.hold, str(tmp_path), 0, gpus=2, processes=1, cluster="local")
    assert job.result(PATIENCE_S) == "GPU-2,GPU-3"


def test_a_shell_in_an_allocation_leases_among_its_gpus(
    cards: Cards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``helpers shell --gpus 2``, and jobs of one in it."""
    cards.number(4)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    one_gpu = Executor(gpus=1, cluster="local")
    jobs = [one_gpu.submit(gpu_functions.hold, str(tmp_path), 0.1) for _ in range(3)]
    assert {job.result(PATIENCE_S) for job in jobs} <= {"GPU-1", "GPU-3"}


def test_the_elements_of_an_array_lease_one_by_one(cards: Cards, tmp_path: Path) -> None:
    """Each is a job like any other."""
    cards.number(2)
    jobs = submit_array(
        gpu_functions.hold, [call(str(tmp_path), 0.1) for _ in range(3)], gpus=1, max_running=3, cluster="local"
    )
    assert {job.result(PATIENCE_S) for job in jobs} <= {"GPU-0", "GPU-1"}


def test_without_a_driver_what_the_allocation_names_is_leased(
    cards: Cards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stand-ins, and other makers' cards."""
    monkeypatch.delenv("STAND_IN_CARDS")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    one_gpu = Executor(gpus=1, cluster="local")
    jobs = [one_gpu.submit(gpu_functions.hold, str(tmp_path), 0.1) for _ in range(2)]
    assert {job.result(PATIENCE_S) for job in jobs} <= {"2", "3"}


def test_a_job_of_a_job_shares_its_gpus(cards: Cards, tmp_path: Path) -> None:
    """It would wait for its own parent's end."""
    cards.number(1)
    job = submit(gpu_functions.hold_in_a_job_of_this, str(tmp_path), gpus=1, cluster="local")
    assert job.result(PATIENCE_S) == "GPU-0"


def test_several_slices_for_one_process_are_refused(cards: Cards) -> None:
    """CUDA shows a process one slice."""
    cards.are([{"uuid": "GPU-0", "slices": [{"uuid": "MIG-a"}, {"uuid": "MIG-b"}]}])
    with pytest.raises(InvalidRequest, match=r"a process sees one(.|\n)*submit_array"):
        submit(gpu_functions.hold, "/", 0, gpus=2, cluster="local")


def test_a_folder_of_leases_that_is_unsafe_ends_the_job_with_the_cure(cards: Cards) -> None:
    """It would have computed beside others."""
    cards.number(1)
    folder = Path(os.environ["HELPERS_LEASES"])
    folder.mkdir()
    folder.chmod(0o777)
    job = submit(gpu_functions.hold, "/", 0, gpus=1, cluster="local")
    assert "is no folder of mode 1777" in str(job.exception(PATIENCE_S))
    assert f"sudo chmod 1777 {folder}" in job.logs()
