"""Durations as people write them."""

from datetime import timedelta

import pytest

from helpers.errors import InvalidRequest
from helpers.training.checkpoints.durations import read_rhythm, read_seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("10min", 600),
        ("1h 30min", 5400),
        ("1h30m", 5400),
        ("1.5 h", 5400),
        ("2d", 172800),
        ("02:00:00", 7200),
        ("1-00:00:30", 86430),
        (0.5, 0.5),
        (timedelta(minutes=1), 60),
    ],
)
def test_a_duration_is_read_as_people_write_it(written: str | float | timedelta, seconds: float) -> None:
    """Slurm's spelling, units and Python's own types mean the same thing."""
    assert read_seconds(written) == seconds


@pytest.mark.parametrize("written", ["", "10", "ten minutes", "10 parsecs", "0s", -1.0, timedelta(0), "5min x"])
def test_what_cannot_be_read_is_refused(written: str | float | timedelta) -> None:
    """A rhythm that was misread would lose hours at the next preemption."""
    with pytest.raises(InvalidRequest):
        read_seconds(written)


def test_a_whole_number_is_steps_and_all_else_is_time() -> None:
    """``save_every=500`` counts steps, ``save_every=500.0`` counts seconds."""
    assert read_rhythm(500) == (500, None)
    assert read_rhythm(500.0) == (None, 500.0)
    assert read_rhythm("1min") == (None, 60.0)
    with pytest.raises(InvalidRequest, match="at least 1 step, got 0"):
        read_rhythm(0)
