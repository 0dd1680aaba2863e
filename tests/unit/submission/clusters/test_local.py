"""Runs on this machine, in real processes: the same endings as on a cluster, without one."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers import (
    Executor,
    InvalidRequest,
    Job,
    JobCancelled,
    JobExited,
    JobFailed,
    JobKilled,
    JobLost,
    ResultNotSaved,
    TimeLimitReached,
    attach,
    submit,
)
from helpers.runtime.run.status import read_ledger
from tests.slurm import descendants
from tests.unit.submission import functions
from tests.unit.submission.time_limits import ENDS_IN, heed_time_from
from tests.waiting import wait_for

PATIENCE_S = 240
LOCAL = Executor(cluster="local")


def wait_until_started(job: Job[Any]) -> None:
    wait_for(lambda: list(job.folder.glob("attempts/*/started-0")))


@pytest.mark.usefixtures("project")
class TestEndings:
    def test_a_value_comes_back(self) -> None:
        """With what was printed on the way."""
        job = LOCAL.submit(functions.add, 1, b=2.5)
        assert (job.result(PATIENCE_S), job.state, "adding" in job.logs(rank=0)) == (3.5, "COMPLETED", True)

    def test_an_exception_comes_back_as_itself_with_file_and_line(self) -> None:
        """C06: the class to catch, and the place to look at."""
        error = LOCAL.submit(functions.print_and_raise).exception(PATIENCE_S)
        assert (type(error), str(error)) == (ValueError, "boom-123")
        assert error is not None
        line = functions.raise_here.__code__.co_firstlineno + 2
        assert f'functions.py", line {line}, in raise_here' in str(error.__cause__)

    def test_frames_of_this_library_are_not_in_the_traceback(self) -> None:
        """The user looks for their own file."""
        error = LOCAL.submit(functions.print_and_raise).exception(PATIENCE_S)
        assert "helpers/runtime" not in str(error and error.__cause__)

    def test_an_exceptions_notes_and_odd_characters_survive(self) -> None:
        """U+2028 broke the ledger, half a surrogate pair the outcome, and a note stood in place of the message."""
        job = LOCAL.submit(functions.raise_with_a_note)
        error = job.exception(PATIENCE_S)
        assert (str(error), job.reason) == ("boom \udce9 \u2028 end", "ValueError: boom \udce9 \u2028 end")

    @pytest.mark.parametrize(("code", "told"), [(3, 3), ("a sentence", 1)])
    def test_sys_exit_is_told_by_its_code(self, code: object, told: int) -> None:
        """As a shell would see it."""
        error = LOCAL.submit(functions.leave_by_exit, code).exception(PATIENCE_S)
        assert isinstance(error, JobExited)
        assert error.facts.exit_code == told

    def test_sys_exit_without_a_code_is_success(self) -> None:
        """Scripts end in ``sys.exit(main())``."""
        assert LOCAL.submit(functions.leave_by_exit, None).result(PATIENCE_S) is None

    def test_a_signal_is_told_by_its_name(self) -> None:
        """C01: the caller waited for a file that never came."""
        error = LOCAL.submit(functions.kill_self, int(signal.SIGKILL)).exception(PATIENCE_S)
        assert isinstance(error, JobKilled)
        assert (error.facts.signal, error.facts.rank) == ("SIGKILL", 0)

    def test_a_value_that_cannot_be_pickled_is_named_by_its_type(self) -> None:
        """C07 (b): the function finished."""
        error = LOCAL.submit(functions.return_a_lock).exception(PATIENCE_S)
        assert isinstance(error, ResultNotSaved)
        assert "_thread.lock" in str(error)

    def test_an_argument_that_cannot_be_pickled_is_refused_at_once(self, project: Path) -> None:
        """C07 (a): named, and nothing is queued."""
        with pytest.raises(InvalidRequest, match=r"argument 'b' \(_thread.lock\) cannot be pickled"):
            LOCAL.submit(functions.add, 1, b=threading.Lock())  # type: ignore[arg-type]  # the mistake
        assert not (project / "runs").exists()

    def test_an_exception_that_cannot_be_rebuilt_comes_as_text(self) -> None:
        """C07 (c): pickle's error about ``__init__`` hid it, or the caller hung."""
        error = LOCAL.submit(functions.raise_two_arguments).exception(PATIENCE_S)
        assert isinstance(error, JobFailed)
        assert "TwoArguments: bad" in str(error)
        assert "in raise_two_arguments" in str(error.__cause__)

    def test_a_class_of_the_launching_script_comes_back(self, project: Path) -> None:
        """C07 (d): ``__main__`` is another module in the job."""
        script = project / "launch.py"
        script.write_text(
            textwrap.dedent("""\
            from helpers import submit

            class Point:
                def __init__(self, x):
                    self.x = x

            def make():
                return Point(7)

            if __name__ == "__main__":
                print(submit(make, cluster="local").result(240).x)
            """)
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == ("7\n", 0)

    def test_a_function_may_close_its_output(self) -> None:
        """What remains to be flushed is not worth the result."""
        assert LOCAL.submit(functions.close_stdout).result(PATIENCE_S) == 42

    def test_what_a_function_leaves_behind_does_not_hold_the_run(self) -> None:
        """C16: a thread asleep, and a child that ignores SIGTERM."""
        job = LOCAL.submit(functions.leave_a_child_and_a_thread)
        value = job.result(PATIENCE_S)
        stat = Path("/proc", (job.folder / "child").read_text(), "stat")
        assert (value, not stat.exists() or ") Z " in stat.read_text()) == (42, True)
        assert "forgotten" in job.logs()

    def test_a_forked_child_can_be_terminated(self) -> None:
        """C16: it inherits the parent's handler and would ignore SIGTERM."""
        assert LOCAL.submit(functions.terminate_a_forked_child).result(PATIENCE_S) == -signal.SIGTERM


@pytest.mark.usefixtures("project")
class TestRanks:
    def test_each_rank_knows_its_place(self) -> None:
        """The same calls work on a laptop."""
        places = submit(functions.where_am_i, processes=2, cluster="local").results(PATIENCE_S)
        assert [(place["rank"], place["local_rank"], place["world_size"]) for place in places] == [(0, 0, 2), (1, 1, 2)]

    def test_the_rank_that_raised_ends_the_others_and_is_shown(self) -> None:
        """C33 (a): rank 0 slept on, and nobody looked at rank 1 as long as it did."""
        error = submit(functions.fail_in_rank_one, "raise", processes=2, cluster="local").exception(PATIENCE_S)
        assert str(error) == "rank one is out"

    def test_the_rank_that_was_killed_ends_the_others_and_is_shown(self) -> None:
        """C33 (b)."""
        error = submit(functions.fail_in_rank_one, "kill", processes=2, cluster="local").exception(PATIENCE_S)
        assert isinstance(error, JobKilled)
        assert error.facts.rank == 1

    def test_an_error_that_follows_from_a_killed_rank_does_not_hide_it(self, project: Path) -> None:
        """C33: "connection closed by peer" is what the survivor says; why the peer died is the question."""
        error = submit(functions.notice_a_lost_peer, str(project), processes=2, cluster="local").exception(PATIENCE_S)
        assert isinstance(error, JobKilled)
        assert error.facts.rank == 1


@pytest.mark.usefixtures("project")
class TestStops:
    def test_a_cancel_ends_a_running_job(self) -> None:
        """The supervisor is asked; it writes how it ended."""
        job = LOCAL.submit(functions.sleep, 600)
        wait_until_started(job)
        assert job.cancel()
        assert isinstance(job.exception(PATIENCE_S), JobCancelled)

    def test_a_cancel_ends_what_the_function_has_started(self, project: Path) -> None:
        """Nobody else would: here no scheduler sweeps up, and Slurm does not reach a session of its own everywhere."""
        job = LOCAL.submit(descendants.start_some_and_wait, str(project / "pid"))
        wait_for((project / "pid").exists)
        children = psutil.Process(int((project / "pid").read_text())).children()
        job.cancel()
        assert isinstance(job.exception(PATIENCE_S), JobCancelled)
        assert len(children) == len(descendants.KINDS)
        wait_for(lambda: not any(child.is_running() for child in children))

    def test_a_cancel_right_after_the_submission_is_not_lost(self) -> None:
        """The script ignored the signal as long as it was not yet the supervisor, or died of it and was "lost"."""
        job = LOCAL.submit(functions.sleep, 600)
        job.cancel()
        assert isinstance(job.exception(PATIENCE_S), JobCancelled)

    def test_the_time_limit_without_a_checkpoint_is_a_time_limit(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not "killed": what to do is another thing."""
        heed_time_from("started-0", project, monkeypatch)
        job = submit(functions.sleep, 600, time=1, requeue=False, setup=ENDS_IN.format(1), cluster="local")
        assert isinstance(job.exception(PATIENCE_S), TimeLimitReached)

    def test_the_time_limit_with_a_checkpoint_begins_the_next_attempt(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The warning comes, the state is saved, and the script begins again under the same id."""
        heed_time_from("started-0", project, monkeypatch)
        job = submit(functions.save_and_leave, 3, time=60, setup=ENDS_IN.format(80), cluster="local")
        first_id = job.id
        assert (job.result(PATIENCE_S), job.attempt, job.id) == (3, 2, first_id)

    def test_the_ledger_tells_why_each_attempt_ended(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who asks why it took so long finds the answer there."""
        heed_time_from("started-0", project, monkeypatch)
        job = submit(functions.save_and_leave, 2, time=60, setup=ENDS_IN.format(80), cluster="local")
        job.result(PATIENCE_S)
        ends = [(line["state"], line["cause"]) for line in read_ledger(job._files) if line["event"] == "end"]
        assert ends == [("REQUEUED", "timeout"), ("COMPLETED", "returned")]

    def test_the_callers_death_changes_nothing(self) -> None:
        """The laptop is closed; the run goes on."""
        code = (
            "import os; from helpers import submit; from tests.unit.submission import functions;"
            "job = submit(functions.sleep, 1.5, cluster='local'); print(job.folder, flush=True);"
            "os.kill(os.getpid(), 9)"
        )
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        job = LOCAL.submit(functions.add, 0)
        assert (done.returncode, attach(done.stdout.strip()).result(PATIENCE_S)) == (-signal.SIGKILL, "slept")
        assert job.result(PATIENCE_S) == 0

    def test_no_warning_is_given_of_a_run_that_goes_on(self) -> None:
        """It is meant to outlive its caller; ``subprocess`` calls that a leak."""
        code = (
            "from helpers import submit; from tests.unit.submission import functions;"
            "print(submit(functions.sleep, 1, cluster='local').folder)"
        )
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert attach(done.stdout.strip()).result(PATIENCE_S) == "slept"
        assert "Warning" not in done.stderr

    def test_no_zombie_is_left_of_a_run_that_has_ended(self) -> None:
        """A notebook that submits all day would collect them."""
        first = LOCAL.submit(functions.add, 0)
        assert first.result(PATIENCE_S) == 0
        process = psutil.Process(int(first.id.removeprefix("local-")))
        wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
        # its threads may still be ending, so the first submission after it need not be the one that reaps it
        wait_for(lambda: LOCAL.submit(functions.add, 1).result(PATIENCE_S) == 1 and not process.is_running())

    def test_a_dead_supervisor_is_noticed(self) -> None:
        """Nobody else could tell."""
        job = LOCAL.submit(functions.sleep, 600)
        wait_until_started(job)
        supervisor = psutil.Process(int(job.id.removeprefix("local-")))
        processes = [supervisor, *supervisor.children()]
        for process in processes:
            process.kill()
        assert isinstance(job.exception(PATIENCE_S), JobLost)


def test_more_gpus_than_this_machine_has_are_refused_with_a_call_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent run on the CPU would look like a slow GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(InvalidRequest, match=r"has 2 GPUs; the call asks for 4(.|\n)*submit\(…, gpus=2\)"):
        submit(functions.add, 1, gpus=4, cluster="local")


def test_more_nodes_than_one_are_refused_here() -> None:
    """This machine is one."""
    with pytest.raises(InvalidRequest, match="one node; the call asks for 2"):
        submit(functions.add, 1, nodes=2, cluster="local")


def test_a_local_run_inside_a_job_sees_that_jobs_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would take those of other jobs on the node."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    assert submit(functions.read_variable, "CUDA_VISIBLE_DEVICES", cluster="local").result(PATIENCE_S) == "2"


def test_no_slurm_at_all_is_this_machine_and_said_loudly(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A student's laptop; on a login node it would be a mistake that one must see."""
    monkeypatch.setattr("helpers.submission.clusters.choice.slurm_is_configured", lambda *_: False)
    job = submit(functions.add, 1)
    assert (job.result(PATIENCE_S), job.id.startswith("local-")) == (1, True)
    assert "NO SLURM ON THIS MACHINE" in capfd.readouterr().err
    with pytest.raises(InvalidRequest):
        submit(functions.add, 1, gpus=64)
    assert capfd.readouterr().err == ""  # it said that the call runs here, and then that it does not


@pytest.mark.parametrize("folder", ["My Project (v2) lr=0.1 é", "50%j done", 'it\'s $(touch stray) `a` "b"', "a\\b"])
def test_odd_characters_in_the_folder_are_only_characters(
    project: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """C14: a shell or a pattern may read them as something else."""
    odd = project / folder
    odd.mkdir()
    monkeypatch.chdir(odd)
    monkeypatch.setenv("PWD", str(odd))
    job = submit(functions.add, 1, 2, cluster="local", name="two words")
    assert job.result(PATIENCE_S) == 3
    assert ([path.name for path in odd.iterdir()], [path.name for path in project.iterdir()]) == (["runs"], [folder])
