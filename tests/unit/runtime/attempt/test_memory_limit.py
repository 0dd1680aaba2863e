"""The memory limit is known by Slurm's own lines, whatever else is printed into the batch log."""

import pytest

from helpers.runtime.attempt.memory_limit import reached_memory_limit


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd-gpu1: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes …",
        "slurmstepd: error: Detected 2 oom_kill events in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "srun: error: gpu1: task 1: Out Of Memory",
        "srun: error: gpu1: tasks 0-1,3: Out Of Memory",
        "no line's end srun: error: gpu1: task 1: Out Of Memory",
    ],
)
def test_slurms_lines_tell(line: str) -> None:
    """Of 22.05 and of 23.02 and later."""
    assert reached_memory_limit(f"[helpers] attempt 0\n{line}\nsrun: job step aborted\n")


@pytest.mark.parametrize(
    "line",
    [
        "Out Of Memory killer off",
        "oom-kill: see the manual",
        "srun: error: gpu1: task 0: Killed",
        "error: Out Of Memory",
    ],
)
def test_words_of_a_set_up_do_not(line: str) -> None:
    """A ``kill -9`` was told as too little memory, with a peak far below the limit."""
    assert not reached_memory_limit(f"{line}\nsrun: error: gpu1: task 0: Killed\n")
