"""The decisions around an attempt: whether it may begin, and what became of it."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from helpers.runtime import attempt
from helpers.runtime.description import Description
from helpers.runtime.files import write_json
from helpers.runtime.outcome import Kind, Outcome
from helpers.runtime.run_folder import RunFolder
from helpers.runtime.status import Ending, State, Status, read_ledger, read_status, write_status

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


def conclude(
    run: RunFolder, description: Description, *, code: int = 0, left_s: float | None = None
) -> tuple[str, str]:
    """Return state and cause."""
    end = None if left_s is None else time.time() + left_s
    conclusion = attempt.conclude(run, description, 0, exit_code=code, end_time=end)
    return str(conclusion.state), conclusion.ending.cause


@pytest.fixture(autouse=True)
def _begun(run: RunFolder) -> None:
    run.begin_attempt()
    run.attempt(0).started(0).touch()
    run.batch_log.write_text("[helpers] attempt 0, job 7, 2030-01-01 00:00:00\n")


def log(run: RunFolder, text: str) -> None:
    with run.batch_log.open("a") as file:
        file.write(text)


class TestConclusion:
    def test_all_returned_is_success(self, run: RunFolder, described: Described) -> None:
        """Whatever srun's exit code says: a flush that failed is not worth the result."""
        report(run, 0, Kind.RETURNED)
        report(run, 1, Kind.RETURNED)
        assert conclude(run, described(), code=1) == ("COMPLETED", "returned")

    def test_a_rank_that_failed_outweighs_the_mark(self, run: RunFolder, described: Described) -> None:
        """What failed once would fail again, for ever."""
        report(run, 0, Kind.LEFT)
        report(run, 1, Kind.RAISED, error="ValueError: boom", exit_code=1)
        mark(run)
        assert conclude(run, described(), code=1) == ("FAILED", "raised")

    def test_the_mark_outweighs_the_exit_code(self, run: RunFolder, described: Described) -> None:
        """The state of all is durable; how the processes ended after that does not matter."""
        report(run, 0, Kind.LEFT)
        mark(run)
        log(run, SRUN_KILLED)
        assert conclude(run, described(), code=137) == ("REQUEUED", "preempted")

    def test_a_missing_outcome_is_a_death(self, run: RunFolder, described: Described) -> None:
        """Rank 0 returned; rank 1 said nothing at all."""
        report(run, 0, Kind.RETURNED)
        assert conclude(run, described(), code=5) == ("FAILED", "exited")

    def test_a_missing_outcome_is_no_success_even_with_exit_code_0(self, run: RunFolder, described: Described) -> None:
        """``os._exit(0)`` in the middle of a training."""
        report(run, 0, Kind.RETURNED)
        assert conclude(run, described(), code=0) == ("FAILED", "exited")

    def test_the_first_rank_that_failed_is_the_one(self, run: RunFolder, described: Described) -> None:
        """The others failed because of it."""
        report(run, 0, Kind.RAISED, time=20.0, error="RuntimeError: peer")
        report(run, 1, Kind.RAISED, time=10.0, error="ValueError: boom")
        assert attempt.conclude(run, described(), 0, exit_code=1, end_time=None).ending.rank == 1

    def test_a_rank_that_was_killed_first_outweighs_what_follows_from_it(
        self, run: RunFolder, described: Described
    ) -> None:
        """C33: "connection closed by peer" hid the rank that had died."""
        report(run, 0, Kind.RAISED, error="RuntimeError: Connection closed by peer")
        log(run, SRUN_KILLED)
        ending = attempt.conclude(run, described(), 0, exit_code=137, end_time=None).ending
        assert (ending.cause, ending.rank, ending.signal, ending.node) == ("killed", 1, "SIGKILL", "gpu1")

    def test_a_rank_that_srun_killed_after_a_failure_is_not_the_culprit(
        self, run: RunFolder, described: Described
    ) -> None:
        """The others are ended by ``--kill-on-bad-exit``."""
        report(run, 0, Kind.RAISED, error="ValueError: boom")
        log(run, SRUN_EXITED)
        assert conclude(run, described(), code=137) == ("FAILED", "raised")

    def test_the_exit_code_is_that_of_the_rank_that_ended_first(self, run: RunFolder, described: Described) -> None:
        """By itself srun gives the highest, 137, of those that it has killed."""
        log(run, "srun: error: gpu1: task 1: Exited with exit code 5\nsrun: error: gpu1: task 0: Killed\n")
        ending = attempt.conclude(run, described(), 0, exit_code=137, end_time=None).ending
        assert (ending.cause, ending.exit_code, ending.rank) == ("exited", 5, 1)

    def test_the_memory_limit_is_told_from_a_kill(self, run: RunFolder, described: Described) -> None:
        """Both are SIGKILL; one is cured by ``mem=``."""
        log(run, OUT_OF_MEMORY)
        assert conclude(run, described(), code=137) == ("OUT_OF_MEMORY", "out_of_memory")

    def test_words_of_an_earlier_attempt_do_not_count(self, run: RunFolder, described: Described) -> None:
        """The batch log goes on over all attempts."""
        run.batch_log.write_text(f"[helpers] attempt 0, job 7\n{OUT_OF_MEMORY}{CANCELLED}[helpers] attempt 1, job 7\n")
        assert conclude(run, described(), code=139) == ("FAILED", "killed")

    @pytest.mark.parametrize("kind", [Kind.EXITED, Kind.RAISED])
    @pytest.mark.parametrize(
        ("words", "ended"), [(CANCELLED, ("CANCELLED", "cancelled")), (TIME_LIMIT, ("TIMEOUT", "timeout"))]
    )
    def test_a_job_that_slurm_ended_did_not_fail(
        self, run: RunFolder, described: Described, kind: Kind, words: str, ended: tuple[str, str]
    ) -> None:
        """Many scripts leave with an exit code when SIGTERM comes; a cancel stays a cancel."""
        report(run, 0, kind, exit_code=143)
        log(run, words)
        assert conclude(run, described(), code=143) == ended

    def test_the_mark_outweighs_a_return(self, run: RunFolder, described: Described) -> None:
        """A loop that saves in its own way asks for the requeue and returns; it is to go on."""
        report(run, 0, Kind.RETURNED)
        report(run, 1, Kind.RETURNED)
        mark(run)
        assert conclude(run, described()) == ("REQUEUED", "preempted")

    def test_a_stop_without_a_requeue_is_an_end(self, run: RunFolder, described: Described) -> None:
        """Submitted with requeue=False, a job that has saved ends; no successor is queued in its place."""
        report(run, 0, Kind.LEFT)
        report(run, 1, Kind.LEFT)
        mark(run)
        assert conclude(run, described(requeue=False)) == ("PREEMPTED", "preempted")

    def test_a_cancel_outweighs_the_mark(self, run: RunFolder, described: Described) -> None:
        """The state is saved, and stays; the job does not come back by itself."""
        report(run, 0, Kind.LEFT)
        mark(run)
        log(run, CANCELLED)
        assert conclude(run, described()) == ("CANCELLED", "cancelled")

    def test_a_cancel_tells_the_step_that_is_saved(self, run: RunFolder, described: Described) -> None:
        """It is where ``resume()`` goes on."""
        report(run, 0, Kind.LEFT)
        mark(run, step=44)
        log(run, CANCELLED)
        assert attempt.conclude(run, described(), 0, exit_code=0, end_time=None).step == 44

    @pytest.mark.parametrize(
        ("left_s", "cause"), [(80.0, "timeout"), (140.0, "timeout"), (3000.0, "preempted"), (None, "preempted")]
    )
    def test_time_limit_and_preemption_are_told_apart_by_the_jobs_end(
        self, run: RunFolder, described: Described, left_s: float | None, cause: str
    ) -> None:
        """Within the warning time and the minute by which Slurm may be early, it is the time limit."""
        report(run, 0, Kind.LEFT, stop_time=time.time(), stop_signal="SIGUSR2")
        mark(run)
        assert conclude(run, described(warning_s=90), left_s=left_s) == ("REQUEUED", cause)

    def test_a_process_that_a_stop_ended_before_it_began_begins_again(
        self, run: RunFolder, described: Described
    ) -> None:
        """Python was still starting and did not listen yet: nothing is lost, so nothing has failed."""
        run.attempt(0).started(0).unlink()
        log(run, "srun: error: gpu1: tasks 0-1: Terminated\n")
        assert conclude(run, described(), code=143) == ("REQUEUED", "preempted")

    def test_a_process_that_a_stop_ended_after_it_began_was_killed(self, run: RunFolder, described: Described) -> None:
        """It has its own handler, or none; what it had done is not known."""
        log(run, "srun: error: gpu1: tasks 0-1: Terminated\n")
        assert conclude(run, described(), code=143) == ("FAILED", "killed")


def begin(run: RunFolder, description: Description) -> int | str:
    """Return the attempt's number, or the cause why there is none."""
    begun = attempt.begin(run, description, job_id="7", nodes="gpu1")
    return begun.cause if isinstance(begun, Ending) else begun


class TestBeginning:
    def test_a_run_that_cannot_resume_does_not_run_twice(self, run: RunFolder, described: Described) -> None:
        """Three days of work from the beginning again, and results overwritten."""
        assert begin(run, described()) == "cannot_resume"

    def test_the_caller_hears_that_it_was_preempted(self, run: RunFolder, described: Described) -> None:
        """The job ends here, so it needs an ending."""
        begin(run, described())
        status = read_status(run)
        assert status is not None
        assert (status.state, "no Checkpointer" in (status.ending or Ending(cause="")).detail) == (
            State.PREEMPTED,
            True,
        )

    def test_a_function_that_never_started_may_run(self, run: RunFolder, described: Described) -> None:
        """The node was lost before; nothing was done twice."""
        run.attempt(0).started(0).unlink()
        assert begin(run, described()) == 1

    @pytest.mark.parametrize("differences", [{"requeue": True}, {"has_checkpoint_method": True}])
    def test_who_says_that_it_can_resume_runs_again(
        self, run: RunFolder, described: Described, differences: dict[str, Any]
    ) -> None:
        """``requeue=True``, or submitit's ``checkpoint`` method."""
        assert begin(run, described(**differences)) == 1

    def test_a_checkpoint_lets_it_run_again(self, run: RunFolder, described: Described) -> None:
        """That is what it is for."""
        (run.checkpoints / "step-00000001").mkdir(parents=True)
        assert begin(run, described()) == 1

    def test_requeue_false_is_never_run_again(self, run: RunFolder, described: Described) -> None:
        """Also not with a checkpoint: the user said so."""
        run.checkpoints.mkdir()
        assert begin(run, described(requeue=False)) == "cannot_resume"

    def test_two_attempts_without_progress_are_enough(self, run: RunFolder, described: Described) -> None:
        """An epoch that is longer than the time limit would be begun for ever."""
        (run.checkpoints / "step-00000001").mkdir(parents=True)
        assert [begin(run, described()) for _ in range(3)] == [1, 2, "no_progress"]

    def test_an_attempt_that_has_saved_is_progress(self, run: RunFolder, described: Described) -> None:
        """A run of a week has many attempts."""
        begun = []
        for step in range(1, 5):
            (run.checkpoints / f"step-{step:08}").mkdir(parents=True)
            begun.append(begin(run, described()))
        assert begun == [1, 2, 3, 4]

    def test_a_run_that_has_succeeded_is_not_run_again(self, run: RunFolder, described: Described) -> None:
        """A requeue that crossed with the end."""
        write_status(run, Status(state=State.COMPLETED, job_id="7", attempt=0, ending=Ending(cause="returned")))
        assert begin(run, described(requeue=True)) == "returned"
        assert read_ledger(run) == []

    def test_a_run_that_has_failed_keeps_its_ending(self, run: RunFolder, described: Described) -> None:
        """Requeued by hand it cannot resume; that it was "preempted" would hide why it had failed."""
        failed = Ending(cause="raised", rank=0, detail="ValueError: boom")
        write_status(run, Status(state=State.FAILED, job_id="7", attempt=0, ending=failed))
        begin(run, described())
        status = read_status(run)
        assert status is not None
        assert status.ending == failed

    def test_a_refused_start_of_an_ended_run_leaves_no_trace(self, run: RunFolder, described: Described) -> None:
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
