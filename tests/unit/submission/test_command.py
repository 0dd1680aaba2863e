"""Programs as jobs on this machine: their exit codes, signals and variables, and what is refused before queueing."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers import (
    InvalidRequest,
    Job,
    JobCancelled,
    JobExited,
    JobKilled,
    JobPreempted,
    TimeLimitReached,
    submit_command,
)
from helpers.runtime.run.status import read_ledger
from tests.unit.submission.time_limits import ENDS_IN, heed_time_from
from tests.waiting import wait_for

PATIENCE_S = 240
READY = "$HELPERS_RUN/attempts/$HELPERS_ATTEMPT/ready"
SHORT_GRACE = """
import sys

if "helpers.runtime.local.ranks" in sys.orig_argv:
    from helpers.runtime import stop

    listen = stop.listen_for_stop  # the first thing that the supervisor, as __main__, calls
    stop.listen_for_stop = lambda: (setattr(sys.modules["__main__"], "_GRACE_S", 1), listen())
"""


def here(*words: str, **keywords: Any) -> Job[int]:
    return submit_command(words, cluster="local", **keywords)


def output(job: Job[int]) -> list[str]:
    return (job.folder / "logs" / str(job.attempt) / "0.out").read_text().splitlines()


class TestEndings:
    def test_success_is_0(self) -> None:
        """With what was printed; no shell reads the words."""
        job = here("printf", "%s\n", "$HOME; it's", "ö")
        assert (job.result(PATIENCE_S), job.state, output(job)) == (0, "COMPLETED", ["$HOME; it's", "ö"])

    def test_an_exit_code_is_an_error_with_the_code(self) -> None:
        """The number is what the program's manual explains."""
        error = here("sh", "-c", "echo away >&2; exit 3").exception(PATIENCE_S)
        assert isinstance(error, JobExited)
        assert (error.facts.exit_code, error.facts.rank, error.facts.log_tail) == (3, 0, "away")

    @pytest.mark.parametrize("name", ["KILL", "SEGV", "ABRT", "INT"])
    def test_a_signal_is_an_error_with_its_name(self, name: str) -> None:
        """A crash in a binary is no exit code."""
        error = here("sh", "-c", f"kill -{name} $$").exception(PATIENCE_S)
        assert isinstance(error, JobKilled)
        assert error.facts.signal == f"SIG{name}"

    def test_a_program_that_vanished_in_the_job_is_127(self) -> None:
        """A set-up line may bring the program along; where it does not, the log says what was looked for."""
        job = here("no-such-program", setup="true")
        error = job.exception(PATIENCE_S)
        assert isinstance(error, JobExited)
        assert error.facts.exit_code == 127
        assert "no-such-program cannot be started on" in str(error)

    def test_inline_runs_in_this_process(self) -> None:
        """For a look at what it prints."""
        assert submit_command(["true"], cluster="inline").result() == 0
        assert isinstance(submit_command(["false"], cluster="inline").exception(), subprocess.CalledProcessError)

    def test_every_process_has_its_result(self) -> None:
        """One for each, in the order of ranks."""
        job = here("sh", "-c", "echo $RANK of $WORLD_SIZE", processes=2)
        assert (job.results(PATIENCE_S), output(job)) == ([0, 0], ["0 of 2"])

    def test_one_process_that_fails_ends_the_others(self) -> None:
        """And it is its code that is shown."""
        error = here("sh", "-c", '[ "$RANK" = 1 ] && exit 5; sleep 600', processes=2).exception(PATIENCE_S)
        assert isinstance(error, JobExited)
        assert (error.facts.exit_code, error.facts.rank) == (5, 1)

    def test_what_a_program_leaves_behind_does_not_outlive_it(self, project: Path) -> None:
        """C16: on a cluster it would hold the allocation, on this machine the GPU."""
        until_it_is_sleep = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'  # a fork of the shell at first
        job = here("sh", "-c", f"sleep 600 & echo $! > child; {until_it_is_sleep}")
        assert job.result(PATIENCE_S) == 0
        assert not psutil.pid_exists(int((project / "child").read_text()))
        assert "ended with it: sleep" in job.logs(rank=0)


class TestVariables:
    def test_run_folder_attempt_and_end_are_told(self) -> None:
        """What a program needs to save, to go on, and to stop in time."""
        job = here("sh", "-c", "echo $HELPERS_RUN $HELPERS_ATTEMPT; echo $HELPERS_END_TIME $HELPERS_GPUS", time=60)
        assert job.result(PATIENCE_S) == 0
        first, second = output(job)
        end_time, gpus = second.split()
        assert (first, gpus) == (f"{job.folder} 0", "0")
        assert 3500 < int(end_time) - time.time() < 3700

    def test_a_lone_program_is_no_rank(self) -> None:
        """A library that finds RANK waits for others, which never come."""
        job = here("sh", "-c", "echo ${RANK-unset} ${WORLD_SIZE-unset}")
        assert (job.result(PATIENCE_S), output(job)) == (0, ["unset unset"])

    def test_torchrun_starts_its_own_ranks(self, project: Path) -> None:
        """What a person has today runs unchanged."""
        script = project / "ranks.py"
        script.write_text("import os\nopen('rank' + os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'])\n")
        torchrun = str(Path(sys.executable).with_name("torchrun"))
        job = here(torchrun, "--standalone", "--nproc_per_node=2", str(script))
        assert job.result(PATIENCE_S) == 0
        assert [(project / f"rank{rank}").read_text() for rank in range(2)] == ["2", "2"]


class TestStops:
    def test_a_cancel_reaches_the_program_and_what_it_started(self, project: Path) -> None:
        """A program that saves on SIGTERM saves."""
        script = "trap 'echo saved > saved; kill $child; exit 1' TERM; sleep 600 & child=$!; touch ready; wait"
        job = here("sh", "-c", script)
        wait_for((project / "ready").exists)
        job.cancel()
        assert isinstance(job.exception(PATIENCE_S), JobCancelled)
        assert (project / "saved").read_text() == "saved\n"

    def test_a_program_that_ignores_the_stop_is_killed_with_its_children(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody else would end them on this machine."""
        (project / "sitecustomize.py").write_text(SHORT_GRACE)
        monkeypatch.setenv("PYTHONPATH", f"{project}:{Path(__file__).parents[3]}")
        job = here("sh", "-c", "trap '' TERM; sleep 600 & echo $! > child; wait; sleep 600")
        wait_for((project / "child").exists)
        job.cancel()
        assert isinstance(job.exception(PATIENCE_S), JobCancelled)
        child = int((project / "child").read_text())
        wait_for(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)

    def test_no_warning_comes_unasked(self) -> None:
        """A program that does not know the signal would die of it."""
        script = "trap 'exit 9' USR1 USR2; sleep 3"
        job = here("sh", "-c", script, time=60, setup=ENDS_IN.format(80))  # it would be due at once
        assert job.result(PATIENCE_S) == 0

    def test_the_warning_that_was_asked_for_comes(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """By sbatch's own notation."""
        heed_time_from("ready", project, monkeypatch)
        script = f"trap 'kill $!; exit 9' USR1; sleep 600 & touch {READY}; wait"
        job = here("sh", "-c", script, time=1, setup=ENDS_IN.format(50), slurm={"signal": "USR1@60"})
        error = job.exception(PATIENCE_S)
        assert isinstance(error, TimeLimitReached)
        assert "it ended with exit code 9" in job.reason

    def test_a_time_limit_without_a_wish_to_go_on_is_a_time_limit(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever code the program makes of SIGTERM."""
        heed_time_from("started-0", project, monkeypatch)
        job = here("sleep", "600", time=1, setup=ENDS_IN.format(1))
        assert isinstance(job.exception(PATIENCE_S), TimeLimitReached)


class TestRequeue:
    def test_exit_code_75_asks_for_the_next_attempt(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """EX_TEMPFAIL of sysexits.h: try again."""
        heed_time_from("ready", project, monkeypatch)
        waits = f"touch {READY}; while :; do sleep 0.1; done"
        script = f'trap "exit 75" TERM; [ "$HELPERS_ATTEMPT" = 1 ] && exit 0; {waits}'
        job = here("sh", "-c", script, time=1, setup=f"[ -e $HELPERS_RUN/attempts/1 ] || {ENDS_IN.format(1)}")
        assert (job.result(PATIENCE_S), job.attempt) == (0, 1)
        ends = [(line["state"], line["cause"]) for line in read_ledger(job._files) if line["event"] == "end"]
        assert ends == [("REQUEUED", "timeout"), ("COMPLETED", "returned")]

    def test_a_program_that_only_asks_ends(self) -> None:
        """Otherwise it would hold its GPUs for ever."""
        error = here("sh", "-c", "exit 75", name="asks").exception(PATIENCE_S)
        assert isinstance(error, JobPreempted)
        assert "asked to be run again within 60 s of their start" in str(error)

    def test_without_requeue_75_is_an_exit_code(self) -> None:
        """What was switched off does not happen."""
        error = here("sh", "-c", "exit 75", requeue=False).exception(PATIENCE_S)
        assert isinstance(error, JobExited)
        assert "requeue=False" in str(error)


class TestRefusals:
    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ("Rscript fit.R", r"list of words(.|\n)*submit_command\(\['Rscript', 'fit.R'\]\)"),
            ([], "begins with a program"),
            ([["a"]], "text, a path or a number"),
            (["echo", "a\0b"], "NUL"),
            (["no-such-program"], "There is no program 'no-such-program' on PATH"),
            (["./nothing.sh"], r"There is no program './nothing.sh'\."),
        ],
    )
    def test_what_is_no_command_is_refused(self, command: Any, message: str) -> None:
        """In seconds, not after a night in the queue."""
        with pytest.raises(InvalidRequest, match=message):
            submit_command(command, cluster="local")

    def test_a_script_that_is_not_executable_is_refused(self, project: Path) -> None:
        """With the cure."""
        (project / "fit.sh").write_text("echo")
        with pytest.raises(InvalidRequest, match=r"chmod \+x ./fit.sh"):
            submit_command(["./fit.sh"], cluster="local")
        with pytest.raises(InvalidRequest, match=r"on PATH(.|\n)*./fit.sh"):
            submit_command(["fit.sh"], cluster="local")

    def test_an_unknown_keyword_is_refused(self) -> None:
        """A program has no keywords."""
        with pytest.raises(InvalidRequest, match="no keyword 'lr'"):
            submit_command(["true"], lr=1)


def test_the_script_asks_for_one_process_a_node_and_no_signal(capsys: pytest.CaptureFixture[str]) -> None:
    """The GPUs of a node belong to one torchrun; a warning would end a program that does not know it."""
    submit_command(["true"], gpus=4, cluster="slurm", dry_run=True)
    script = capsys.readouterr().out
    assert "#SBATCH --ntasks-per-node=1\n" in script
    assert "#SBATCH --gpus-per-node=4\n" in script
    assert "--signal" not in script
    assert script.count("-m helpers.runtime.rank.command\n") == 1


def test_a_signal_that_was_asked_for_is_in_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    """By sbatch's own notation."""
    submit_command(["true"], cluster="slurm", slurm={"signal": "USR1@120"}, dry_run=True)
    assert "#SBATCH --signal=USR1@120\n" in capsys.readouterr().out


@pytest.mark.parametrize("asked", ["FOO@60", "4000@60"])
def test_a_signal_that_there_is_not_is_refused(asked: str) -> None:
    """On this machine it ended the supervisor, and the job was lost."""
    with pytest.raises(InvalidRequest, match=rf"names a signal; got '{asked}'"):
        submit_command(["true"], cluster="local", slurm={"signal": asked})


def test_the_description_holds_the_words() -> None:
    """What ran is on record."""
    job = here("true", "--lr", "1e 3")
    assert job.result(PATIENCE_S) == 0
    assert job.description.command == ["true", "--lr", "1e 3"]
    assert job.description.call == "true --lr '1e 3'"
    assert job.name == "true"
