"""``total_time`` holds all attempts together."""

import time
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.attempt import Conclusion
from helpers.runtime.run_folder import RunFolder
from helpers.runtime.status import Ending, State, record_attempt
from helpers.runtime.total_time import within_total_time

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
    assert ending.detail == "its total_time of 120 min is used up; saved at step 7"


def test_a_success_is_a_success(begun: Any, described: Any, tmp_path: Path) -> None:
    """Also at the last minute."""
    done = Conclusion(state=State.COMPLETED, ending=Ending(cause="returned"), exit_code=0)
    assert within_total_time(begun(500), described(total_time_min=120), done) is done
