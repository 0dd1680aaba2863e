"""``total_time`` holds all attempts together."""

import time
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.attempt import batch
from helpers.runtime.attempt.attempt import Conclusion
from helpers.runtime.attempt.total_time import total_time_left_s, within_total_time
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, State, record_attempt

LEFT = Conclusion(state=State.REQUEUED, ending=Ending(cause="timeout"), exit_code=0, step=7)


@pytest.fixture
def begun(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that begins an attempt so many minutes ago, after others of so many minutes."""

    def begin(*minutes: float) -> RunFolder:
        now = time.time()
        for number, length in enumerate(minutes):
            monkeypatch.setattr(time, "time", lambda start=now: start)
            record_attempt(run, event="start", attempt=number, job_id="7")
            now += length * 60
            monkeypatch.setattr(time, "time", lambda end=now: end)
            if number < len(minutes) - 1:
                record_attempt(run, event="end", attempt=number, job_id="7")
                now += 3600  # an hour in the queue costs nothing
        return run

    return begin


@pytest.mark.parametrize(("minutes", "state"), [((30, 30), State.REQUEUED), ((60, 60), State.TIMEOUT)])
def test_a_run_ends_when_its_attempts_have_used_the_total(
    begun: Any, described: Any, minutes: tuple[float, ...], state: State
) -> None:
    """Time in the queue does not count."""
    run = begun(*minutes)
    assert within_total_time(run, described(total_time_min=120, warning_s=90), LEFT).state is state


def test_without_a_total_there_is_no_end(begun: Any, described: Any) -> None:
    """It goes on as long as it makes progress."""
    assert within_total_time(begun(10_000), described(), LEFT) is LEFT


def test_the_ending_says_what_was_used_up_and_where_it_stands(begun: Any, described: Any) -> None:
    """The checkpoint stays; ``resume()`` goes on from it."""
    ending = within_total_time(begun(120), described(total_time_min=120, warning_s=90), LEFT).ending
    assert (ending.cause, ending.detail) == ("total_time", "its total_time of 120 min is used up; saved at step 7")


def test_a_success_is_a_success(begun: Any, described: Any, tmp_path: Path) -> None:
    """Also at the last minute."""
    done = Conclusion(state=State.COMPLETED, ending=Ending(cause="returned"), exit_code=0)
    assert within_total_time(begun(500), described(total_time_min=120), done) is done


def test_what_a_run_waits_for_gpus_of_this_machine_does_not_count(begun: Any, described: Any) -> None:
    """It stands in a queue, as a job that Slurm has not started."""
    run = begun(90)
    record_attempt(run, event="leased", attempt=0, job_id="local-7")
    assert total_time_left_s(run, described(total_time_min=180)) == 180 * 60


def test_a_run_that_is_resumed_by_hand_has_its_time_again(begun: Any, described: Any) -> None:
    """Who asks for more of it means more than one attempt."""
    run = begun(120, 30)
    assert total_time_left_s(run, described(total_time_min=180)) == 30 * 60
    record_attempt(run, event="resumed", attempt=2, job_id="7")
    assert total_time_left_s(run, described(total_time_min=180)) == 180 * 60


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What scontrol is asked, in a job of a Slurm whose squeue tells an end."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for name, script in {"scontrol": f'echo "$@" >> {tmp_path}/asked', "squeue": "echo 1000 20:00 2200"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "asked").touch()
    return tmp_path / "asked"


@pytest.mark.parametrize(("minutes", "words"), [((60, 0), ""), ((100, 0), "update JobId=7 TimeLimit=20\n")])
def test_the_last_attempt_has_the_limit_that_is_left(
    begun: Any, described: Any, asked: Path, minutes: tuple[float, ...], words: str
) -> None:
    """A total of a week and a limit of four days would else be eight days."""
    assert batch._end_time(begun(*minutes), described(total_time_min=120, time_min=60), "7") == 2200.0
    assert asked.read_text() == words
