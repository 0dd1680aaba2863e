"""A traceback shows the caller's lines and those of the caller's own code, not this library's."""

import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from helpers import Executor, InvalidRequest, submit, submit_array, submit_command


def train(*args: Any, **options: Any) -> None:
    """Accept anything."""


def fit(lr: float, epochs: int = 1) -> None:
    """Accept two arguments."""


def odd_only(number: int) -> int:
    """Fail for half of the numbers."""
    if number % 2 == 0:
        raise ValueError("even")
    return number


class Stateful:
    """Stand for a user's class that cannot be pickled for a reason of its own."""

    def __getstate__(self) -> Any:
        """Fail."""
        raise RuntimeError("the file is open")


@pytest.mark.parametrize(
    "call",
    [
        lambda: submit(fit, 7, gpu=4, cluster="local"),
        lambda: submit(train, threading.Lock(), cluster="local"),
        lambda: submit_array(train, [threading.Lock()], cluster="local"),
        lambda: submit_command(["no-such-program"], cluster="local"),
        lambda: Executor(gpu=4),
    ],
)
def test_a_refused_call_is_shown_in_a_few_lines(call: Callable[[], Any]) -> None:
    """The two lines that matter stood below forty of this library's own."""
    with pytest.raises(InvalidRequest) as refused:
        call()
    shown = "".join(traceback.format_exception(refused.value))
    assert "helpers/submission" not in shown
    assert "During handling" not in shown
    assert "direct cause" not in shown
    assert "call()" in shown


def test_what_the_users_own_code_raised_is_shown() -> None:
    """Where it was raised is what has to change."""
    with pytest.raises(InvalidRequest, match="cannot be pickled") as refused:
        submit(train, Stateful(), cluster="local")
    assert 'raise RuntimeError("the file is open")' in "".join(traceback.format_exception(refused.value))


def test_a_failed_sweep_is_shown_in_a_few_lines() -> None:
    """The job's own line, and the caller's; not those of the futures in between."""
    with pytest.raises(ValueError, match="even") as failed:
        submit_array(odd_only, [1, 2], cluster="inline").results()
    shown = "".join(traceback.format_exception(failed.value))
    assert 'raise ValueError("even")' in shown
    assert "concurrent/futures" not in shown
