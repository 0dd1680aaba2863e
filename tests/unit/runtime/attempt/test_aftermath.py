"""What the request to stop did to a function's children is not the function's fault; all else is."""

import subprocess
from concurrent.futures.process import BrokenProcessPool

import pytest

from helpers.runtime import stop
from helpers.runtime.attempt.aftermath import follows_from_stop


@pytest.fixture
def asked_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has been asked to stop."""
    monkeypatch.setattr(stop, "_request", stop.StopRequest("SIGTERM", 0.0))


def called(code: int) -> BaseException:
    """Return what ``subprocess.run(check=True)`` raises."""
    return subprocess.CalledProcessError(code, ["sleep"])


def wrapped(error: BaseException) -> BaseException:
    """Return an error that was raised while another one was handled."""
    outer = ValueError("no data")
    outer.__context__ = error
    return outer


FOLLOWS = {
    "a program": called(-15),
    "a program by our signal": called(-12),
    "a program in a shell": called(143),
    "a loader's worker": RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated. "),
    "a loader's worker that is gone": RuntimeError("DataLoader worker (pid(s) 7, 8) exited unexpectedly"),
    "a worker of a pool": BrokenProcessPool("A process in the process pool was terminated abruptly while…"),
    "what came of it": wrapped(called(-15)),
}
OWN = {
    "a program that failed": called(1),
    "a program that was killed": called(-9),
    "a worker that was killed": RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "),
    "another error": ValueError("exited unexpectedly"),
}


@pytest.mark.usefixtures("asked_to_stop")
@pytest.mark.parametrize("name", FOLLOWS)
def test_the_end_of_a_child_by_the_signal_follows_from_it(name: str) -> None:
    """The function only waited for it."""
    assert follows_from_stop(FOLLOWS[name])


@pytest.mark.usefixtures("asked_to_stop")
@pytest.mark.parametrize("name", OWN)
def test_any_other_error_is_the_functions_own(name: str) -> None:
    """It would come again."""
    assert not follows_from_stop(OWN[name])


@pytest.mark.parametrize("name", FOLLOWS)
def test_unasked_nothing_follows(name: str) -> None:
    """Somebody else has ended the child."""
    assert not follows_from_stop(FOLLOWS[name])
