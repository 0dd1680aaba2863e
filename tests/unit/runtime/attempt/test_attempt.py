"""Whether an attempt may begin, and what is recorded where it may not."""

from collections.abc import Callable
from typing import Any

import pytest

from helpers.runtime.attempt import attempt
from helpers.runtime.run.description import Description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, State, Status, read_ledger, read_status, record_attempt, write_status

pytestmark = pytest.mark.usefixtures("begun")

Described = Callable[..., Description]


def begin(run: RunFolder, description: Description) -> int | str:
    """Return the attempt's number, or the cause why there is none."""
    begun = attempt.begin(run, description, job_id="7", nodes="gpu1")
    return begun.cause if isinstance(begun, Ending) else begun


def test_a_run_that_cannot_resume_does_not_run_twice(run: RunFolder, described: Described) -> None:
    """Three days of work from the beginning again, and results overwritten."""
    assert begin(run, described()) == "cannot_resume"


def test_the_caller_hears_that_it_was_preempted(run: RunFolder, described: Described) -> None:
    """The job ends here, so it needs an ending."""
    begin(run, described())
    status = read_status(run)
    assert status is not None
    assert (status.state, "no Checkpointer" in (status.ending or Ending(cause="")).detail) == (
        State.PREEMPTED,
        True,
    )


def test_a_function_that_never_started_may_run(run: RunFolder, described: Described) -> None:
    """The node was lost before; nothing was done twice."""
    run.attempt(0).started(0).unlink()
    assert begin(run, described()) == 1


@pytest.mark.parametrize("differences", [{"requeue": True}, {"has_checkpoint_method": True}])
def test_who_says_that_it_can_resume_runs_again(
    run: RunFolder, described: Described, differences: dict[str, Any]
) -> None:
    """``requeue=True``, or submitit's ``checkpoint`` method."""
    assert begin(run, described(**differences)) == 1


def test_a_checkpoint_lets_it_run_again(run: RunFolder, described: Described) -> None:
    """That is what it is for."""
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    assert begin(run, described()) == 1


def test_requeue_false_is_never_run_again(run: RunFolder, described: Described) -> None:
    """Also not with a checkpoint: the user said so."""
    run.checkpoints.mkdir()
    assert begin(run, described(requeue=False)) == "cannot_resume"


def test_two_attempts_without_progress_are_enough(run: RunFolder, described: Described) -> None:
    """An epoch that is longer than the time limit would be begun for ever."""
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    assert [begin(run, described()) for _ in range(3)] == [1, 2, "no_progress"]


def test_a_save_at_each_start_is_no_progress(run: RunFolder, described: Described) -> None:
    """``checkpoint.save()`` before the loop: each attempt leaves a new checkpoint, of the step that it began with."""
    begun = []
    for name in ("step-00000003", "step-00000003-again-0001", "step-00000003-again-0002"):
        (run.checkpoints / name).mkdir(parents=True)
        begun.append(begin(run, described()))
    assert begun == [1, 2, "no_progress"]


def test_a_loop_that_saves_and_never_steps_goes_on(run: RunFolder, described: Described) -> None:
    """It has one place only, and saves there several times in each attempt."""
    begun = []
    for again in range(2, 10, 2):
        (run.checkpoints / f"step-00000000-again-{again:04}").mkdir(parents=True)
        begun.append(begin(run, described()))
    assert begun == [1, 2, 3, 4]


def test_a_limit_that_passes_before_the_start_is_not_met_for_ever(run: RunFolder, described: Described) -> None:
    """Loading took longer than the time limit: 188 attempts were seen, and none called the function."""
    run.attempt(0).started(0).unlink()
    begun = []
    for _ in range(4):
        begun.append(begin(run, described()))
        record_attempt(run, event="end", attempt=begun[-1], state=State.REQUEUED, cause="timeout")
    assert begun == [1, 2, 3, "too_short"]


def test_preemptions_before_the_start_are_borne(run: RunFolder, described: Described) -> None:
    """They are the scheduler's; the run has done nothing wrong, and lost nothing."""
    run.attempt(0).started(0).unlink()
    begun = []
    for _ in range(4):
        begun.append(begin(run, described()))
        record_attempt(run, event="end", attempt=begun[-1], state=State.REQUEUED, cause="preempted")
    assert begun == [1, 2, 3, 4]


def test_an_attempt_that_has_saved_is_progress(run: RunFolder, described: Described) -> None:
    """A run of a week has many attempts."""
    begun = []
    for step in range(1, 5):
        (run.checkpoints / f"step-{step:08}").mkdir(parents=True)
        begun.append(begin(run, described()))
    assert begun == [1, 2, 3, 4]


def test_a_run_that_has_succeeded_is_not_run_again(run: RunFolder, described: Described) -> None:
    """A requeue that crossed with the end."""
    write_status(run, Status(state=State.COMPLETED, job_id="7", attempt=0, ending=Ending(cause="returned")))
    assert begin(run, described(requeue=True)) == "returned"
    assert read_ledger(run) == []


def test_a_run_that_has_failed_keeps_its_ending(run: RunFolder, described: Described) -> None:
    """Requeued by hand it cannot resume; that it was "preempted" would hide why it had failed."""
    failed = Ending(cause="raised", rank=0, detail="ValueError: boom")
    write_status(run, Status(state=State.FAILED, job_id="7", attempt=0, ending=failed))
    begin(run, described())
    status = read_status(run)
    assert status is not None
    assert status.ending == failed


def test_a_refused_start_of_an_ended_run_leaves_no_trace(run: RunFolder, described: Described) -> None:
    """``sbatch submission.sh`` by hand: the run's id and its attempts stay what they were."""
    failed = Ending(cause="raised", rank=0, detail="ValueError: boom")
    write_status(run, Status(state=State.FAILED, job_id="7", attempt=0, ending=failed))
    assert begin(run, described()) == "cannot_resume"
    assert (read_ledger(run), run.attempts()) == ([], [0])


def test_a_set_up_line_that_failed_is_the_ending(run: RunFolder) -> None:
    """The function was not called."""
    attempt.fail_setup(run, 0, "7", line="module load cuda", exit_code=127)
    status = read_status(run)
    assert status is not None
    assert status.ending == Ending(cause="setup", exit_code=127, detail="module load cuda")
