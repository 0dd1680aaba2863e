"""In this very process, for a debugger."""

import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from helpers import attach, current_run, submit
from tests.unit.submission import functions


def test_the_function_runs_here_before_submit_returns() -> None:
    """A breakpoint in it stops here."""
    assert submit(os.getpid, cluster="inline").result(0) == os.getpid()


def test_the_function_is_rank_0_of_1_in_a_run() -> None:
    """Also where four GPUs were asked for."""
    run = submit(current_run, cluster="inline", gpus=4).result(0)
    assert (run.rank, run.world_size, run.folder is not None) == (0, 1, True)


def test_results_are_those_of_the_one_rank() -> None:
    """Four were asked for, one was run."""
    assert submit(functions.add, 1, cluster="inline", gpus=4).results(0) == [1]


def test_an_exception_is_kept_for_result() -> None:
    """As everywhere else."""
    job = submit(functions.print_and_raise, cluster="inline")
    with pytest.raises(ValueError, match="boom-123"):
        job.result(0)
    assert job.state == "FAILED"


def leave_by_the_keyboard() -> NoReturn:
    raise KeyboardInterrupt


def test_ctrl_c_ends_the_caller_and_is_recorded(project: Path) -> None:
    """The run would be RUNNING for ever, and whoever attaches to it would wait."""
    with pytest.raises(KeyboardInterrupt):
        submit(leave_by_the_keyboard, cluster="inline", name="stopped")
    (folder,) = (project / "runs" / "stopped").iterdir()
    assert attach(folder).state == "FAILED"


def test_the_environment_is_as_before() -> None:
    """A second call must not think that it is inside the first."""
    before = dict(os.environ)
    submit(functions.add, 1, cluster="inline")
    assert dict(os.environ) == before


def test_a_dry_run_calls_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows what would be done."""
    submit(sys.exit, 1, cluster="inline", dry_run=True)
    assert "nothing was queued" in capsys.readouterr().out
