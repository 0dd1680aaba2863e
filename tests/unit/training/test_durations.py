"""Durations as people write them."""

from datetime import timedelta

import pytest

from helpers.errors import InvalidRequest
from helpers.training.durations import read_seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("10min", 600),
        ("1h 30min", 5400),
        ("1h30m", 5400),
        ("1.5 h", 5400),
        ("2d", 172800),
        ("10 minutes", 600),
        ("2 hours", 7200),
        ("1w", 604800),
        ("1-12:00", 129600),
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
