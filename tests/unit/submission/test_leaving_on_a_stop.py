"""Frameworks that leave a function when they are asked to stop."""

import os
import signal
from pathlib import Path

import pytest

from helpers import JobPreempted, current_run, submit
from helpers.runtime.stop import wait_for_stop


class LeftEarly(SystemExit):
    """Stands for Lightning's SIGTERMException, a SystemExit without a code."""


def leave_early() -> str:
    os.kill(os.getpid(), signal.SIGTERM)
    wait_for_stop(60)
    if current_run().attempt == 0:
        raise LeftEarly
    return "again"


def test_a_training_that_a_framework_breaks_off_has_not_succeeded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SystemExit without a code is success elsewhere; here half a training would be taken for a whole one."""
    monkeypatch.setenv("HELPERS_ALLOW_LOCAL", "1")
    with pytest.raises(JobPreempted, match="LeftEarly"):
        submit(leave_early, cluster="local").result(timeout=240)
