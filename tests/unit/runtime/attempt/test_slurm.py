"""What a job asks of Slurm, against commands that answer as a test wants."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.runtime.attempt import slurm

Shim = Callable[[str, str], None]


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shim:
    """Return a function that puts a command of this name and script first on PATH; no pauses between retries."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_RETRY_DELAYS_S", (0, 0))

    def write(name: str, script: str) -> None:
        file = tmp_path / name
        file.touch(mode=0o755)
        file.write_text(f'#!/bin/bash\ncd {tmp_path}\necho "$@" >> calls\n{script}\n')

    return write


def scontrol(requeue: str, state: str) -> str:
    return f'if [ $1 = requeue ]; then {requeue}; fi; echo "JobId=7 JobState={state} Reason=None"'


@pytest.mark.parametrize(
    ("requeue", "state", "answer"),
    [
        ("exit 0", "RUNNING", "requeued"),
        ("echo 'Job is pending execution' >&2; exit 1", "PENDING", "waits"),
        ("echo 'Requested operation is presently disabled' >&2; exit 1", "RUNNING", "refused"),
        ("echo 'Access/permission denied' >&2; exit 1", "RUNNING", "refused"),
        ("echo 'Job/step already completing or completed' >&2; exit 1", "CANCELLED", "ended"),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", "RUNNING", "refused"),
    ],
)
def test_each_answer_to_a_requeue_is_told_apart(shim: Shim, requeue: str, state: str, answer: str) -> None:
    """A second requeue is no refusal, and a cancelled job must not be revived by a successor."""
    shim("scontrol", scontrol(requeue, state))
    assert slurm.requeue("7") == answer


def test_a_requeue_is_asked_for_again_when_the_controller_is_busy(shim: Shim) -> None:
    """It restarts just when all jobs of a preempted partition ask."""
    busy = "[ -e asked ] && exit 0; touch asked; echo 'Socket timed out' >&2; exit 1"
    shim("scontrol", scontrol(busy, "RUNNING"))
    assert slurm.requeue("7") == "requeued"


def test_a_refusal_that_is_final_is_not_repeated(shim: Shim, tmp_path: Path) -> None:
    """The grace is short; the successor has to be submitted within it."""
    shim("scontrol", scontrol("echo 'Requested operation is presently disabled' >&2; exit 1", "RUNNING"))
    slurm.requeue("7")
    assert (tmp_path / "calls").read_text().count("requeue") == 1


def test_a_requeue_never_revives_what_has_ended(shim: Shim, tmp_path: Path) -> None:
    """Without ``Incomplete``, scontrol starts cancelled jobs again."""
    shim("scontrol", scontrol("exit 0", "RUNNING"))
    slurm.requeue("4711_3")
    assert (tmp_path / "calls").read_text() == "requeue Incomplete 4711_3\n"


@pytest.mark.parametrize(
    ("printed", "told", "end"),
    [
        ("1000 30:00 2800", None, 2800.0),
        ("1000 1-02:00:00 94600", None, 94600.0),
        ("1000 30:00 1015", 2800.0, 2800.0),  # to be preempted: Slurm's end is that of the grace
        ("1000 1:00 1060", 2800.0, 1060.0),  # an administrator has shortened the limit
        ("1000 40:00 3400", 2800.0, 3400.0),  # or given more
        ("1000 30:00 2900", 2800.0, 2900.0),  # it was suspended for 100 s
        ("1000 UNLIMITED NONE", None, None),
        ("1000 UNLIMITED 1015", None, None),
        ("N/A 30:00 N/A", None, None),
        ("", None, None),
        ("", 2800.0, 2800.0),
    ],
)
def test_the_end_of_a_job_is_asked_of_the_queue(
    shim: Shim, printed: str, told: float | None, end: float | None
) -> None:
    """SLURM_JOB_END_TIME exists from 23.02 on, and goes stale when an administrator changes the limit."""
    shim("squeue", f"[ $SLURM_TIME_FORMAT = %s ] && echo '{printed}'")
    assert slurm.end_time("7", told=told) == end


def test_the_end_is_not_known_where_nobody_answers(shim: Shim) -> None:
    """The run goes on; a stop then counts as a preemption."""
    shim("squeue", "exit 1")
    assert slurm.end_time("7") is None


def test_a_filter_of_the_users_shell_does_not_hide_the_job(
    shim: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job inherits the environment of its submission."""
    monkeypatch.setenv("SQUEUE_PARTITION", "low")
    shim("squeue", "env > environment")
    slurm.end_time("7")
    assert "SQUEUE_PARTITION" not in (tmp_path / "environment").read_text()


def test_an_element_of_an_array_is_named_by_array_and_index() -> None:
    """C20: its own SLURM_JOB_ID is for the last element that of the whole array, and a requeue restarts all."""
    environment = {"SLURM_JOB_ID": "4711", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "3"}
    assert (slurm.job_id(environment), slurm.job_id({"SLURM_JOB_ID": "4711"})) == ("4711_3", "4711")


@pytest.mark.parametrize(
    ("printed", "job_id"),
    [("4711\n", "4711"), ("4711;demo\n", "4711"), ("notice 12\n4711\nbye\n", "4711"), ("", None), ("12 jobs", None)],
)
def test_the_id_is_read_among_a_sites_notices(printed: str, job_id: str | None) -> None:
    """C13: also for the successor that a job submits."""
    assert slurm.read_job_id(printed) == job_id
