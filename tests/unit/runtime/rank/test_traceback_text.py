"""The traceback that a user gets ends at the user's own line."""

from collections.abc import Callable

import pytest

from helpers.errors import InvalidRequest
from helpers.runtime.rank.call import Call
from helpers.runtime.rank.traceback_text import last_line, traceback_text
from helpers.submission.resources.amounts import parse_gpus


def refused_deep_in_the_library() -> None:
    parse_gpus("2g.10gb:2")


def raised_by(function: Callable[[], object], kind: type[BaseException]) -> BaseException:
    with pytest.raises(kind) as caught:
        Call(function, (), {})()
    error = caught.value
    return error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None)  # without this frame


def test_an_error_of_ours_ends_at_the_call_that_was_refused() -> None:
    """Five frames of a library below it look as if the library were broken."""
    text = traceback_text(raised_by(refused_deep_in_the_library, InvalidRequest))
    assert "in refused_deep_in_the_library" in text
    assert "amounts.py" not in text
    assert "call.py" not in text
    assert "  hint: submit_array(" in text


def test_any_other_error_keeps_the_frames_of_this_library() -> None:
    """It may be ours to mend."""

    def divide() -> None:
        parse_gpus(4).per_node(0)

    text = traceback_text(raised_by(divide, ZeroDivisionError))
    assert "in divide" in text
    assert "amounts.py" in text


def test_the_last_line_is_without_the_hint() -> None:
    """It stands in a table."""
    assert last_line(InvalidRequest("No.", hint="Yes")) == "InvalidRequest: No."
    assert last_line(ValueError("boom")) == "ValueError: boom"
