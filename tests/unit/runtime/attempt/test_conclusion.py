"""What became of an attempt: the outcomes of its ranks, the mark, the words of Slurm."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from helpers.runtime.attempt import attempt
from helpers.runtime.files import write_json
from helpers.runtime.run.description import Description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.outcome import Kind, Outcome
from helpers.runtime.run.status import State
from helpers.runtime.stop import OUT_OF_TIME

pytestmark = pytest.mark.usefixtures("begun")

Described = Callable[..., Description]
SRUN_KILLED = "srun: error: gpu1: task 1: Killed\nsrun: error: gpu1: task 0: Exited with exit code 1\n"
SRUN_EXITED = "srun: error: gpu1: task 0: Exited with exit code 1\nsrun: error: gpu1: task 1: Killed\n"
OUT_OF_MEMORY = (
    "slurmstepd-gpu1: error: Detected 1 oom-kill event(s) in StepId=7.0.\nsrun: error: gpu1: task 1: Out Of Memory\n"
)
CANCELLED = "slurmstepd-gpu1: error: *** JOB 7 ON gpu1 CANCELLED AT 2030-01-01T00:00:00 ***\n"
TIME_LIMIT = "slurmstepd-gpu1: error: *** JOB 7 ON gpu1 CANCELLED AT 2030-01-01T00:00:00 DUE TO TIME LIMIT ***\n"


def report(run: RunFolder, rank: int, kind: Kind, **facts: Any) -> None:
    Outcome(kind=kind, **{"time": 10.0 + rank, "node": "gpu1", **facts}).write(run.attempt(0).outcome(rank))


def mark(run: RunFolder, step: int = 7) -> None:
    write_json(run.attempt(0).requeue_mark, {"step": step, "time": 1.0})


def log(run: RunFolder, text: str) -> None:
    with run.batch_log.open("a") as file:
        file.write(text)


def conclude(
    run: RunFolder, description: Description, *, code: int = 0, left_s: float | None = None
) -> tuple[str, str]:
    """Return state and cause."""
    end = None if left_s is None else time.time() + left_s
    conclusion = attempt.conclude(run, description, 0, exit_code=code, end_time=end)
    return str(conclusion.state), conclusion.ending.cause


def test_all_returned_is_success(run: RunFolder, described: Described) -> None:
    """Whatever srun's exit code says: a flush that failed is not worth the result."""
    report(run, 0, Kind.RETURNED)
    report(run, 1, Kind.RETURNED)
    assert conclude(run, described(), code=1) == ("COMPLETED", "returned")


def test_a_rank_that_failed_outweighs_the_mark(run: RunFolder, described: Described) -> None:
    """What failed once would fail again, for ever."""
    report(run, 0, Kind.LEFT)
    report(run, 1, Kind.RAISED, error="ValueError: boom", exit_code=1)
    mark(run)
    assert conclude(run, described(), code=1) == ("FAILED", "raised")


def test_the_mark_outweighs_the_exit_code(run: RunFolder, described: Described) -> None:
    """The state of all is durable; how the processes ended after that does not matter."""
    report(run, 0, Kind.LEFT)
    mark(run)
    log(run, SRUN_KILLED)
    assert conclude(run, described(), code=137) == ("REQUEUED", "preempted")


def test_a_missing_outcome_is_a_death(run: RunFolder, described: Described) -> None:
    """Rank 0 returned; rank 1 said nothing at all."""
    report(run, 0, Kind.RETURNED)
    assert conclude(run, described(), code=5) == ("FAILED", "exited")


def test_a_missing_outcome_is_no_success_even_with_exit_code_0(run: RunFolder, described: Described) -> None:
    """``os._exit(0)`` in the middle of a training."""
    report(run, 0, Kind.RETURNED)
    assert conclude(run, described(), code=0) == ("FAILED", "exited")


def test_the_first_rank_that_failed_is_the_one(run: RunFolder, described: Described) -> None:
    """The others failed because of it."""
    report(run, 0, Kind.RAISED, time=20.0, error="RuntimeError: peer")
    report(run, 1, Kind.RAISED, time=10.0, error="ValueError: boom")
    assert attempt.conclude(run, described(), 0, exit_code=1, end_time=None).ending.rank == 1


def test_a_rank_that_was_killed_first_outweighs_what_follows_from_it(run: RunFolder, described: Described) -> None:
    """C33: "connection closed by peer" hid the rank that had died."""
    report(run, 0, Kind.RAISED, error="RuntimeError: Connection closed by peer")
    log(run, SRUN_KILLED)
    ending = attempt.conclude(run, described(), 0, exit_code=137, end_time=None).ending
    assert (ending.cause, ending.rank, ending.signal, ending.node) == ("killed", 1, "SIGKILL", "gpu1")


def test_a_rank_that_srun_killed_after_a_failure_is_not_the_culprit(run: RunFolder, described: Described) -> None:
    """The others are ended by ``--kill-on-bad-exit``."""
    report(run, 0, Kind.RAISED, error="ValueError: boom")
    log(run, SRUN_EXITED)
    assert conclude(run, described(), code=137) == ("FAILED", "raised")


def test_the_exit_code_is_that_of_the_rank_that_ended_first(run: RunFolder, described: Described) -> None:
    """By itself srun gives the highest, 137, of those that it has killed."""
    log(run, "srun: error: gpu1: task 1: Exited with exit code 5\nsrun: error: gpu1: task 0: Killed\n")
    ending = attempt.conclude(run, described(), 0, exit_code=137, end_time=None).ending
    assert (ending.cause, ending.exit_code, ending.rank) == ("exited", 5, 1)


def test_the_memory_limit_is_told_from_a_kill(run: RunFolder, described: Described) -> None:
    """Both are SIGKILL; one is cured by ``mem=``."""
    log(run, OUT_OF_MEMORY)
    assert conclude(run, described(), code=137) == ("OUT_OF_MEMORY", "out_of_memory")


def test_words_of_an_earlier_attempt_do_not_count(run: RunFolder, described: Described) -> None:
    """The batch log goes on over all attempts."""
    run.batch_log.write_text(f"[helpers] attempt 0, job 7\n{OUT_OF_MEMORY}{CANCELLED}[helpers] attempt 1, job 7\n")
    assert conclude(run, described(), code=139) == ("FAILED", "killed")


@pytest.mark.parametrize("kind", [Kind.EXITED, Kind.RAISED])
@pytest.mark.parametrize(
    ("words", "ended"), [(CANCELLED, ("CANCELLED", "cancelled")), (TIME_LIMIT, ("TIMEOUT", "timeout"))]
)
def test_a_job_that_slurm_ended_did_not_fail(
    run: RunFolder, described: Described, kind: Kind, words: str, ended: tuple[str, str]
) -> None:
    """Many scripts leave with an exit code when SIGTERM comes; a cancel stays a cancel."""
    report(run, 0, kind, exit_code=143)
    log(run, words)
    assert conclude(run, described(), code=143) == ended


def test_the_mark_outweighs_a_return(run: RunFolder, described: Described) -> None:
    """A loop that saves in its own way asks for the requeue and returns; it is to go on."""
    report(run, 0, Kind.RETURNED)
    report(run, 1, Kind.RETURNED)
    mark(run)
    assert conclude(run, described()) == ("REQUEUED", "preempted")


def test_a_stop_without_a_requeue_is_an_end(run: RunFolder, described: Described) -> None:
    """Submitted with requeue=False, a job that has saved ends; no successor is queued in its place."""
    report(run, 0, Kind.LEFT)
    report(run, 1, Kind.LEFT)
    mark(run)
    assert conclude(run, described(requeue=False)) == ("PREEMPTED", "preempted")


def test_a_cancel_outweighs_the_mark(run: RunFolder, described: Described) -> None:
    """The state is saved, and stays; the job does not come back by itself."""
    report(run, 0, Kind.LEFT)
    mark(run)
    log(run, CANCELLED)
    assert conclude(run, described()) == ("CANCELLED", "cancelled")


def test_a_cancel_tells_the_step_that_is_saved(run: RunFolder, described: Described) -> None:
    """It is where ``resume()`` goes on."""
    report(run, 0, Kind.LEFT)
    mark(run, step=44)
    log(run, CANCELLED)
    assert attempt.conclude(run, described(), 0, exit_code=0, end_time=None).step == 44


@pytest.mark.parametrize(
    ("left_s", "cause"), [(80.0, "timeout"), (140.0, "timeout"), (3000.0, "preempted"), (None, "preempted")]
)
def test_time_limit_and_preemption_are_told_apart_by_the_jobs_end(
    run: RunFolder, described: Described, left_s: float | None, cause: str
) -> None:
    """Within the warning time and the minute by which Slurm may be early, it is the time limit."""
    report(run, 0, Kind.LEFT, stop_time=time.time(), stop_signal="SIGUSR2")
    mark(run)
    assert conclude(run, described(warning_s=90), left_s=left_s) == ("REQUEUED", cause)


def test_a_training_that_left_early_for_a_long_save_met_the_time_limit(run: RunFolder, described: Described) -> None:
    """Nobody has signalled it; the time limit is why it left, however far that was."""
    report(run, 0, Kind.LEFT, stop_time=time.time(), stop_signal=OUT_OF_TIME)
    mark(run)
    ending = attempt.conclude(run, described(warning_s=90), 0, exit_code=0, end_time=time.time() + 900).ending
    assert (ending.cause, ending.signal) == ("timeout", None)


def test_a_process_that_a_stop_ended_before_it_began_begins_again(run: RunFolder, described: Described) -> None:
    """Python was still starting and did not listen yet: nothing is lost, so nothing has failed."""
    run.attempt(0).started(0).unlink()
    log(run, "srun: error: gpu1: tasks 0-1: Terminated\n")
    assert conclude(run, described(), code=143) == ("REQUEUED", "preempted")


def test_a_process_that_a_stop_ended_after_it_began_was_killed(run: RunFolder, described: Described) -> None:
    """It has its own handler, or none; what it had done is not known."""
    log(run, "srun: error: gpu1: tasks 0-1: Terminated\n")
    assert conclude(run, described(), code=143) == ("FAILED", "killed")


def test_a_stop_before_the_function_was_called_costs_nothing(run: RunFolder, described: Described) -> None:
    """It begins again, whether it could resume or not."""
    run.attempt(0).started(0).unlink()
    report(run, 0, Kind.BROKEN_OFF, stop_time=5.0, error="asked to stop", exit_code=143)
    assert conclude(run, described(), code=143) == ("REQUEUED", "preempted")


def test_what_the_stop_did_to_a_child_leaves_the_newest_checkpoint(run: RunFolder, described: Described) -> None:
    """The function itself has not failed."""
    (run.checkpoints / "step-00000044").mkdir(parents=True)
    report(run, 0, Kind.BROKEN_OFF, stop_time=5.0, exit_code=143)
    judged = attempt.conclude(run, described(), 0, exit_code=143, end_time=None)
    assert (judged.state, judged.step) == (State.REQUEUED, 44)


@pytest.mark.parametrize("kind", [Kind.BROKEN_OFF, Kind.STOPPED])
@pytest.mark.parametrize(
    ("words", "cause"), [("Killed", "killed"), ("Exited with exit code 5", "exited"), ("Bus error", "killed")]
)
def test_a_rank_that_died_is_why_the_others_were_asked_to_stop(
    run: RunFolder, described: Described, kind: Kind, words: str, cause: str
) -> None:
    """``srun`` does so; it is no preemption, and the rank that died is the one to show."""
    report(run, 0, kind, stop_time=5.0, exit_code=143)
    log(run, f"srun: error: gpu1: task 1: {words}\nsrun: error: gpu1: task 0: Exited with exit code 143\n")
    assert conclude(run, described(), code=143) == ("FAILED", cause)
    assert attempt.conclude(run, described(), 0, exit_code=143, end_time=None).ending.rank == 1


def test_broken_off_without_a_checkpointer_is_an_end(run: RunFolder, described: Described) -> None:
    """A second run would start from the beginning, and its side effects with it."""
    report(run, 0, Kind.BROKEN_OFF, stop_time=5.0, error="asked to stop", exit_code=143)
    judged = attempt.conclude(run, described(), 0, exit_code=143, end_time=None)
    assert judged.state is State.PREEMPTED
    assert judged.ending.detail.startswith("asked to stop; the function had made no Checkpointer")


def test_words_of_a_program_are_no_word_of_slurms(run: RunFolder, described: Described) -> None:
    """A set-up line may print anything."""
    with run.batch_log.open("a") as file:
        file.write("Out Of Memory killer off\nsrun: error: gpu1: task 0: Killed\n")
    assert conclude(run, described(), code=137) == ("FAILED", "killed")


def test_broken_off_goes_on_where_the_caller_says_that_it_can(run: RunFolder, described: Described) -> None:
    """Lightning keeps checkpoints of its own, of which nothing is known here."""
    report(run, 0, Kind.BROKEN_OFF, stop_time=5.0, error="asked to stop", exit_code=143)
    assert conclude(run, described(requeue=True), code=143) == ("REQUEUED", "preempted")


@pytest.mark.parametrize(("failed_at", "state"), [(4.0, "FAILED"), (6.0, "REQUEUED")])
def test_an_error_after_the_stop_follows_from_it_and_an_earlier_one_does_not(
    run: RunFolder, described: Described, failed_at: float, state: str
) -> None:
    """The others lose their peer when one breaks off."""
    run.checkpoints.mkdir(parents=True)
    report(run, 0, Kind.BROKEN_OFF, stop_time=5.0, exit_code=143)
    report(run, 1, Kind.RAISED, time=failed_at, exit_code=1)
    assert conclude(run, described(), code=143)[0] == state


@pytest.mark.parametrize(("requeue", "state"), [("auto", "REQUEUED"), (False, "PREEMPTED")])
def test_a_job_that_was_taken_back_before_its_ranks_began_goes_on(
    run: RunFolder, described: Described, requeue: str | bool, state: str
) -> None:
    """Preempted between the script's start and ``srun``; it used to count as a failure of the function."""
    run.attempt(0).started(0).unlink()
    log(run, "srun: error: Unable to confirm allocation for job 7: Job is pending execution\n")
    assert conclude(run, described(requeue=requeue), code=1)[:2] == (state, "preempted")
