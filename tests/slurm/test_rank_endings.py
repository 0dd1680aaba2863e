"""A rank ends as Python ends; one that leaves without a word ends the job, under Slurm."""

import time
from pathlib import Path
from typing import Any

import pytest

from helpers import Job, JobExited, JobKilled, submit
from tests.unit.runtime.rank import ending_functions as functions

PATIENCE_S = 120
SOON_S = 110


@pytest.fixture(scope="module")
def jobs(module_client: Path) -> dict[str, Job[Any]]:
    """All of them, at the same time."""
    return {
        "vanishes": submit(functions.vanish_in_rank, 1, processes=2, nodes=2),
        "returns early": submit(functions.return_early_in_rank_one, processes=2),
        "leaves much": submit(functions.leave_open, str(module_client)),
        "forks": submit(functions.be_killed_beside_a_child, "exits"),
    }


def test_a_rank_that_vanishes_with_exit_code_0_ends_the_others_and_is_named(jobs: dict[str, Job[Any]]) -> None:
    """``--kill-on-bad-exit`` sees no bad exit, and the others waited for it until the time limit."""
    begun = time.monotonic()
    error = jobs["vanishes"].exception(PATIENCE_S)
    assert isinstance(error, JobExited)
    assert error.facts.rank == 1
    assert "os._exit(0)" in str(error)
    assert error.facts.node is not None
    assert error.facts.node.endswith("gpu2")
    assert time.monotonic() - begun < SOON_S


def test_a_rank_that_returns_early_ends_nothing(jobs: dict[str, Job[Any]]) -> None:
    """It has reported; the other goes on for longer than a rank without a word is waited for."""
    assert jobs["returns early"].results(PATIENCE_S) == [0, 1]


def test_open_files_and_handlers_come_to_their_end(jobs: dict[str, Job[Any]], module_client: Path) -> None:
    """The job was COMPLETED, and a part of its work was missing."""
    jobs["leaves much"].result(PATIENCE_S)
    assert [(module_client / name).read_text() for name in ("open", "handled")] == ["all of it", "yes"]


def test_a_forked_child_does_not_report_for_the_rank(jobs: dict[str, Job[Any]]) -> None:
    """What became of its parent is what counts."""
    assert isinstance(jobs["forks"].exception(PATIENCE_S), JobKilled)
