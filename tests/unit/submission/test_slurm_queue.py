"""What squeue and sacct print, in the words of this library."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import ClusterUnreachable
from helpers.runtime.status import State
from helpers.submission import slurm_queue
from helpers.submission.slurm_queue import Observation, cancel, observe

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


def test_without_accounting_a_forgotten_job_is_not_known(shim: Shim) -> None:
    """It is the run folder that remembers then."""
    shim("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert observe(["7"]) == {}


@pytest.mark.parametrize("script", ["echo 'Unable to contact slurm controller' >&2; exit 1", "exec sleep 5"])
def test_a_silent_controller_is_no_news_of_any_job(shim: Shim, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Taken for "not known", it would end all jobs as lost."""
    monkeypatch.setattr(slurm_queue, "_TIMEOUT_S", 0.5)
    shim("squeue", script)
    with pytest.raises(ClusterUnreachable, match="squeue"):
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
