"""What squeue and sacct print, in the words of this library."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import ClusterUnreachable
from helpers.runtime.run.status import State
from helpers.submission.clusters import slurm_program
from helpers.submission.clusters.slurm_queue import Observation, cancel, observe

Shim = Callable[[str, str], Path]


@pytest.fixture
def shim(project: Path, monkeypatch: pytest.MonkeyPatch) -> Shim:
    """Return a function that puts a command of this name and script first on PATH."""
    monkeypatch.setenv("PATH", f"{project}:{os.environ['PATH']}")

    def write(name: str, script: str) -> Path:
        file = project / name
        file.touch(mode=0o755)
        file.write_text(f"#!/bin/sh\n{script}\n")
        return file

    write("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    return write


def line(*fields: str) -> str:
    return "printf '" + "".join(f"{field}\\037" for field in fields) + "\\n'"


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PENDING", State.PENDING),
        ("CONFIGURING", State.PENDING),
        ("REQUEUE_HOLD", State.PENDING),
        ("REQUEUE_FED", State.PENDING),
        ("SPECIAL_EXIT", State.PENDING),
        ("RESV_DEL_HOLD", State.PENDING),
        ("REQUEUED", State.REQUEUED),
        ("RUNNING", State.RUNNING),
        ("COMPLETING", State.RUNNING),
        ("SUSPENDED", State.RUNNING),
        ("STOPPED", State.RUNNING),
        ("RESIZING", State.RUNNING),
        ("SIGNALING", State.RUNNING),
        ("STAGE_OUT", State.RUNNING),
        ("COMPLETED", State.COMPLETED),
        ("CANCELLED", State.CANCELLED),
        ("REVOKED", State.CANCELLED),
        ("FAILED", State.FAILED),
        ("BOOT_FAIL", State.NODE_FAIL),
        ("NODE_FAIL", State.NODE_FAIL),
        ("TIMEOUT", State.TIMEOUT),
        ("DEADLINE", State.TIMEOUT),
        ("OUT_OF_MEMORY", State.OUT_OF_MEMORY),
        ("PREEMPTED", State.PREEMPTED),
        ("A_WORD_OF_A_LATER_SLURM", State.RUNNING),
    ],
)
def test_every_word_of_slurm_has_its_state(shim: Shim, word: str, state: State) -> None:
    """A word that is not known must not end a job that runs."""
    shim("squeue", line("7", word, "None", "0", "gpu1"))
    assert observe(["7"])["7"].state is state


@pytest.mark.parametrize("row", ["7", "7_[0-2]"])
def test_one_line_of_the_queue_stands_for_elements_that_never_began(shim: Shim, row: str) -> None:
    """``scancel "7_[0-2]"`` of a waiting array leaves no line for each; one that runs has its own."""
    shim("squeue", f"{line('7_1', 'RUNNING', 'None', '0', 'gpu1')}; {line(row, 'CANCELLED', 'None', '0', '')}")
    states = {job_id: seen.state for job_id, seen in observe(["7_0", "7_1", "7_2"]).items()}
    assert states == {"7_0": State.CANCELLED, "7_1": State.RUNNING, "7_2": State.CANCELLED}


@pytest.mark.parametrize(
    ("job_ids", "words"),
    [
        (["7", "8"], "7 8"),
        (["7_3"], "7_3"),
        ([f"7_{number}" for number in (2, 0, 1, 7, 9, 10)], "7_[0-2,7,9-10]"),
        (["7_0", "8_0", "7_1", "9"], "7_[0-1] 8_0 9"),
    ],
)
def test_elements_of_an_array_are_cancelled_together(shim: Shim, project: Path, job_ids: list[str], words: str) -> None:
    """A request for each of 1001 elements took 25 times as long as one for all (Slurm 22.05)."""
    shim("scancel", f'echo "$@" > {project}/words')
    cancel(job_ids)
    assert (project / "words").read_text() == f"{words}\n"


@pytest.mark.parametrize(
    ("printed", "exit_code", "signal"), [("0", 0, None), ("1792", 7, None), ("9", 0, 9), ("32512", 127, None)]
)
def test_the_queue_tells_exit_codes_as_wait_does(shim: Shim, printed: str, exit_code: int, signal: int | None) -> None:
    """Without accounting the queue is the only one that knows them."""
    shim("squeue", line("7", "FAILED", "NonZeroExitCode", printed, "gpu1"))
    seen = observe(["7"])["7"]
    assert (seen.exit_code, seen.signal, seen.nodes) == (exit_code, signal, "gpu1")


def test_a_dependency_that_can_never_be_met_is_an_ending(shim: Shim) -> None:
    """Slurm calls it PENDING, for ever."""
    shim("squeue", line("7", "PENDING", "DependencyNeverSatisfied", "0", ""))
    assert observe(["7"])["7"].state is State.DEPENDENCY_FAILED


def test_jobs_of_others_are_left_out(shim: Shim) -> None:
    """An array's elements are all listed for one id."""
    shim("squeue", f"{line('7_0', 'RUNNING', 'None', '0', 'a')}; {line('7_1', 'PENDING', 'None', '0', '')}")
    assert list(observe(["7_1"])) == ["7_1"]


def test_what_the_queue_has_forgotten_is_asked_of_the_accounting(shim: Shim) -> None:
    """MinJobAge is five minutes, a weekend is longer."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    shim("sacct", "echo '7|CANCELLED by 1000|None|0:15|gpu[1-2]'")
    assert observe(["7"]) == {
        "7": Observation(
            state=State.CANCELLED, word="CANCELLED", reason="None", exit_code=0, signal=15, nodes="gpu[1-2]"
        )
    }


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("48_3", ["48_3"]),
        ("48_[1,3]", ["48_1", "48_3"]),
        ("48_[0-9%2]", ["48_1", "48_3"]),
        ("48_[0-99:10,3%2]", ["48_3", "48_20"]),
        ("48_[0,2,1...]", ["48_1", "48_3", "48_20"]),  # the database cuts it off, also within a number
        ("48_[0,2,4-5...]", ["48_20"]),
        ("4_[0-9]", []),
        ("48", ["48_1", "48_3", "48_20"]),  # before the list has reached the database
    ],
)
def test_the_elements_that_never_began_have_one_line_together(shim: Shim, row: str, named: list[str]) -> None:
    """A sweep that was cancelled in the queue was lost where the queue had forgotten it."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    shim("sacct", f"echo '{row}|CANCELLED by 0|None|0:0|None assigned'")
    seen = observe(["48_1", "48_3", "48_20", "7"])
    assert sorted(seen) == sorted(named)
    assert {one.state for one in seen.values()} <= {State.CANCELLED}


def test_an_elements_own_line_counts_more_than_that_of_its_group(shim: Shim) -> None:
    """One had begun before the rest was cancelled."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    shim("sacct", "echo '48_1|FAILED|None|1:0|gpu1'; echo '48|CANCELLED by 0|None|0:0|None assigned'")
    assert {job_id: one.word for job_id, one in observe(["48_1", "48_3"]).items()} == {
        "48_1": "FAILED",
        "48_3": "CANCELLED",
    }


def test_the_accounting_is_asked_for_arrays_as_a_whole(shim: Shim, project: Path) -> None:
    """``sacct --jobs=48_1`` finds nothing of an element that never began."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    shim("sacct", f'echo "$@" > {project}/asked')
    observe(["48_1", "48_3", "7"])
    assert (project / "asked").read_text().split()[-1] == "--jobs=48,7"


def test_what_only_the_accounting_calls_running_is_lost(shim: Shim) -> None:
    """A controller that has lost its state never tells the end: the caller waited for ever."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    shim("sacct", "echo '7|RUNNING|None|0:0|gpu1'")
    seen = observe(["7"])["7"]
    assert (seen.state, seen.reason.endswith("still calls it RUNNING")) == (State.LOST, True)


def test_a_silent_accounting_is_no_news_of_a_forgotten_job(shim: Shim) -> None:
    """Its database is restarted, too; taken for "not known", the job was lost for good."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    shim("sacct", "echo 'sacct: error: Sending PersistInit msg: Connection refused' >&2; exit 1")
    with pytest.raises(ClusterUnreachable, match="sacct: "):
        observe(["7"])


def test_without_accounting_a_forgotten_job_is_not_known(shim: Shim) -> None:
    """It is the run folder that remembers then."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert observe(["7"]) == {}


@pytest.mark.parametrize("script", ["echo 'Unable to contact slurm controller' >&2; exit 1", "exec sleep 5"])
def test_a_silent_controller_is_no_news_of_any_job(shim: Shim, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Taken for "not known", it would end all jobs as lost."""
    monkeypatch.setattr(slurm_program, "_ANSWERS_WITHIN_S", 0.5)
    shim("squeue", script)
    with pytest.raises(ClusterUnreachable, match="does not answer: squeue: "):
        observe(["7"])


def test_nothing_to_ask_asks_nothing(shim: Shim) -> None:
    """The controller has enough to do."""
    shim("squeue", "exit 1")
    assert observe([]) == {}


@pytest.mark.parametrize("variable", ["SQUEUE_PARTITION", "SQUEUE_FORMAT", "SQUEUE_STATES", "SACCT_FORMAT"])
def test_the_users_own_filters_are_not_handed_on(
    shim: Shim, project: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """With SQUEUE_PARTITION=other in a shell, all jobs looked forgotten."""
    monkeypatch.setenv(variable, "other")
    shim("squeue", f"env > {project}/environment")
    observe(["7"])
    assert f"{variable}=" not in (project / "environment").read_text()


def test_cancelling_what_is_gone_is_no_error(shim: Shim) -> None:
    """It has ended, which is what was wanted."""
    shim("scancel", "echo 'scancel: error: Kill job error on job id 7: Invalid job id specified' >&2; exit 1")
    assert cancel(["7"]) is None


def test_a_cancel_that_nobody_hears_is_an_error(shim: Shim) -> None:
    """The job goes on, and costs; the hint is the command to repeat."""
    shim("scancel", "echo 'Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(ClusterUnreachable, match="scancel 7"):
        cancel(["7"])
