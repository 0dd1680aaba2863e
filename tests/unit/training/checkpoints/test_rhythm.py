"""How often is saved."""

import pytest

from helpers.errors import InvalidRequest
from helpers.training.checkpoints.rhythm import read_rhythm


def test_a_whole_number_is_steps_and_all_else_is_time() -> None:
    """``save_every=500`` counts steps, ``save_every=500.0`` counts seconds."""
    assert read_rhythm(500) == (500, None)
    assert read_rhythm(500.0) == (None, 500.0)
    assert read_rhythm("1min") == (None, 60.0)
    with pytest.raises(InvalidRequest, match="at least 1 step, got 0"):
        read_rhythm(0)
