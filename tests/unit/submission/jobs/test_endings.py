"""Each way to end has its own class, a message that says what happened, and a hint."""

import pickle
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import errors
from helpers.runtime.rank.call import save_exception
from helpers.runtime.run.description import Description, write_description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.outcome import Kind, Outcome
from helpers.runtime.run.status import Ending, Peak, State, Status, read_status, record_attempt, write_status
from helpers.submission.clusters.slurm_queue import Observation
from helpers.submission.jobs.endings import exception_of, status_from_scheduler, tail
from helpers.submission.jobs.sentences import in_brief
from tests.unit.submission import functions

DESCRIPTION = Description(
    run_id="1",
    name="net",
    function="models.train",
    arguments=[],
    cluster="slurm",
    place="test",
    python="/env/bin/python",
    sys_path=[],
    directory="/",
    processes=2,
    nodes=1,
    gpus=0,
    time_min=60,
    warning_s=90,
    requeue="auto",
    has_checkpoint_method=False,
    resources={"mem": "8G"},
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run folder whose rank 1 has failed in attempt 0."""
    run = RunFolder(tmp_path / "run")
    run.create()
    write_description(run, DESCRIPTION)
    run.begin_attempt()
    outcome = Outcome(kind=Kind.RAISED, time=1.0, node="gpu1", error="ValueError: boom", traceback="Traceback: boom\n")
    outcome.write(run.attempt(0).outcome(1))
    (run.logs / "0" / "1.err").write_text("line 1\nline 2\n")
    return run


def error_for(run: RunFolder, state: State, **ending: Any) -> BaseException:
    status = Status(state=state, job_id="4711", attempt=0, ending=Ending(**ending))
    return exception_of(run, DESCRIPTION, status)


ENDINGS = [
    ("killed", State.FAILED, {"signal": "SIGBUS"}, errors.JobKilled, "ended by SIGBUS", "helpers logs 4711"),
    ("exited", State.FAILED, {"exit_code": 3}, errors.JobExited, "exit code 3", "helpers logs 4711"),
    ("out_of_memory", State.OUT_OF_MEMORY, {}, errors.JobOutOfMemory, "asked for (8G per node)", 'mem="16G"'),
    ("total_time", State.TIMEOUT, {"detail": "2 days"}, errors.TimeLimitReached, "its time: 2 days", "helpers resume"),
    ("timeout", State.TIMEOUT, {}, errors.TimeLimitReached, "time limit of 60 min", "Checkpointer"),
    ("preempted", State.PREEMPTED, {}, errors.JobPreempted, "give way", "requeue=True"),
    ("cannot_resume", State.PREEMPTED, {"detail": "no Checkpointer"}, errors.JobPreempted, "no Check", "Checkpointer"),
    ("no_progress", State.FAILED, {"detail": "2 attempts"}, errors.JobPreempted, "2 attempts", 'save_every="2min"'),
    ("node_fail", State.NODE_FAIL, {"node": "gpu7"}, errors.NodeFailed, "node gpu7 was lost", "requeue=True"),
    ("cancelled", State.CANCELLED, {}, errors.JobCancelled, "net was cancelled", "helpers logs 4711"),
    ("dependency_failed", State.DEPENDENCY_FAILED, {}, errors.DependencyFailed, "never started", "helpers status"),
    ("launch", State.FAILED, {"node": "gpu7", "detail": "no log"}, errors.EnvironmentMismatch, "on gpu7: no", "ls -ld"),
    ("setup", State.FAILED, {"detail": "module load x"}, errors.SetupFailed, "module load x", "-c 'module load x'"),
    ("raw_data", State.FAILED, {"detail": "a.csv"}, errors.RawDataChanged, "not started: a.csv", "helpers data status"),
    ("unsaved", State.FAILED, {"detail": "a lock"}, errors.ResultNotSaved, "returned, but a lock", "current_run()"),
    ("unloaded", State.FAILED, {"detail": "No module"}, errors.JobFailed, "models.train could not", "import models"),
    ("lost", State.LOST, {}, errors.JobLost, "not known", "sacct -j 4711"),
]


@pytest.mark.parametrize("expected", ENDINGS, ids=lambda expected: expected[0])
def test_each_cause_has_its_class_message_and_hint(run: RunFolder, expected: tuple[Any, ...]) -> None:
    """The caller decides by the class, and a person by the message; the hint can be pasted."""
    cause, state, facts, kind, message, hint = expected
    error = error_for(run, state, cause=cause, **facts)
    assert type(error) is kind
    assert message in error.message
    assert hint in error.hint


def test_a_run_that_was_stopped_too_early_is_told_to_make_its_checkpointer_first(run: RunFolder) -> None:
    """Its function may well have one, after minutes of loading."""
    error = error_for(run, State.PREEMPTED, cause="preempted")
    assert "one that is made first" in getattr(error, "hint", "")
    run.checkpoints.mkdir()
    error = error_for(run, State.PREEMPTED, cause="preempted")
    assert "helpers resume 4711" in getattr(error, "hint", "")


@pytest.mark.parametrize(
    ("peak", "said"),
    [
        (Peak(mem_mb=8192, source="cgroup", node="gpu1"), "(8G per node); its peak on gpu1 was 8G."),
        (
            Peak(mem_mb=700, source="accounting", node="gpu1"),
            "(8G per node); when Slurm last looked, its largest process had 700M on gpu1.",
        ),
        (None, "(8G per node)."),
    ],
)
def test_the_peak_is_told_with_what_is_known_of_it(run: RunFolder, peak: Peak | None, said: str) -> None:
    """A sample of the accounting is no peak: the process may have grown within a second."""
    error = error_for(run, State.OUT_OF_MEMORY, cause="out_of_memory", peak=peak)
    assert getattr(error, "message", "") == f"net used more host memory than it asked for {said}"


def test_the_peak_is_kept_with_the_status(run: RunFolder) -> None:
    """The error is made by whoever asks, days later."""
    peak = Peak(mem_mb=200, source="cgroup", node="gpu1")
    ending = Ending(cause="out_of_memory", peak=peak)
    write_status(run, Status(state=State.OUT_OF_MEMORY, job_id="1", attempt=0, ending=ending))
    status = read_status(run)
    assert status is not None
    assert status.ending == ending


def test_a_set_up_line_can_be_pasted_whatever_its_quotes(run: RunFolder) -> None:
    """The line is the user's, the quotes around it are the shell's."""
    error = error_for(run, State.FAILED, cause="setup", detail="echo 'a b' && false")
    assert shlex.split(getattr(error, "hint", "").partition(": ")[2]) == ["bash", "-c", "echo 'a b' && false"]


def test_a_cancelled_run_with_a_checkpoint_is_resumed_from_it(run: RunFolder) -> None:
    """What is saved is worth more than a look at the log."""
    run.checkpoints.mkdir()
    error = error_for(run, State.CANCELLED, cause="cancelled", detail="the checkpoint stays")
    assert getattr(error, "hint", "").endswith(": helpers resume 4711")


def test_a_cause_of_a_later_version_is_still_an_error_with_its_words(run: RunFolder) -> None:
    """A run folder may be read by an older helpers than the one that wrote it."""
    assert "sunspots" in str(error_for(run, State.FAILED, cause="astronomy", detail="sunspots"))


def test_facts_name_the_place_and_the_end_of_the_log(run: RunFolder) -> None:
    """Everything that one would look for next is in the message."""
    text = str(error_for(run, State.FAILED, cause="killed", rank=1, node="gpu1", exit_code=137, signal="SIGKILL"))
    for fact in ("job: 4711", f"folder: {run.path}", "node: gpu1", "rank: 1", "exit code: 137", "1.err", "line 2"):
        assert fact in text


def test_an_own_exception_is_raised_as_itself_with_the_remote_traceback(run: RunFolder) -> None:
    """``except ValueError`` works as if the function had been called here."""
    save_exception(run, 0, 1, ValueError("boom"))
    error = error_for(run, State.FAILED, cause="raised", rank=1, detail="ValueError: boom")
    assert (type(error), str(error)) == (ValueError, "boom")
    assert "Traceback: boom" in str(error.__cause__)
    assert "rank: 1" in error.__notes__[0]


def test_an_exception_that_cannot_be_rebuilt_is_a_job_failed_with_its_text(run: RunFolder) -> None:
    """C07: no error about somebody's ``__init__``, and no hang."""
    save_exception(run, 0, 1, functions.TwoArguments(7, "bad"))
    error = error_for(run, State.FAILED, cause="raised", rank=1, detail="TwoArguments: bad")
    assert type(error) is errors.JobFailed
    assert "TwoArguments: bad" in str(error)
    assert "Traceback: boom" in str(error.__cause__)


def test_an_exception_whose_class_is_gone_is_a_job_failed(run: RunFolder) -> None:
    """The module may not be importable in the process that looks at the run."""
    save_exception(run, 0, 1, ValueError("boom"))
    run.exception(0, 1).write_bytes(pickle.dumps(ValueError("x")).replace(b"builtins", b"no_where"))
    error = error_for(run, State.FAILED, cause="raised", rank=1, detail="Gone: boom")
    assert type(error) is errors.JobFailed


def test_nothing_is_unpickled_from_a_folder_that_others_can_write_to(run: RunFolder) -> None:
    """A pickle runs code, with the rights of whoever looks at the run."""
    save_exception(run, 0, 1, ValueError("boom"))
    run.private.chmod(0o777)
    with pytest.raises(PermissionError, match="chmod 700"):
        error_for(run, State.FAILED, cause="raised", rank=1)


def observed(state: State, **facts: Any) -> Observation:
    return Observation(state=state, word=str(state), **facts)


@pytest.mark.parametrize(
    ("seen", "state", "cause"),
    [
        (observed(State.CANCELLED), State.CANCELLED, "cancelled"),
        (observed(State.TIMEOUT), State.TIMEOUT, "timeout"),
        (observed(State.NODE_FAIL), State.NODE_FAIL, "node_fail"),
        (observed(State.OUT_OF_MEMORY, signal=125), State.OUT_OF_MEMORY, "out_of_memory"),
        (observed(State.FAILED, signal=9), State.FAILED, "killed"),
        (observed(State.FAILED, exit_code=2), State.FAILED, "exited"),
        (observed(State.COMPLETED), State.LOST, "lost"),
        (None, State.LOST, "lost"),
    ],
)
def test_the_scheduler_tells_what_the_job_cannot(
    run: RunFolder, seen: Observation | None, state: State, cause: str
) -> None:
    """Its batch script was ended from outside; without a result COMPLETED is not success."""
    status = status_from_scheduler(run, "4711", seen)
    assert (status.state, status.ending and status.ending.cause) == (state, cause)


@pytest.mark.parametrize(
    ("seen", "exit_code"),
    [
        (observed(State.TIMEOUT, exit_code=0, signal=9), None),
        (observed(State.OUT_OF_MEMORY, exit_code=0, signal=125), None),
        (observed(State.FAILED, exit_code=2), 2),
    ],
)
def test_an_exit_code_of_0_is_no_fact_of_a_job_that_was_ended(
    run: RunFolder, seen: Observation, exit_code: int | None
) -> None:
    """Slurm gives 0 beside the signal: "exit code: 0" in the error of a killed job reads as success."""
    ending = status_from_scheduler(run, "4711", seen).ending
    assert ending is not None
    assert ending.exit_code == exit_code


@pytest.mark.parametrize("number", [9, 125])
def test_a_signal_without_a_name_is_told_by_its_number(run: RunFolder, number: int) -> None:
    """Slurm's 125 stands for the memory limit; looking for its name ended the watcher, and all futures hung."""
    status = status_from_scheduler(run, "4711", observed(State.FAILED, signal=number))
    assert status.ending is not None
    assert status.ending.signal == {9: "SIGKILL", 125: "signal 125"}[number]


def test_a_log_that_the_node_could_not_open_is_told_as_that(run: RunFolder) -> None:
    """Slurm says 0:53, which is no signal; ``helpers logs`` has nothing to show, for there is no log."""
    status = status_from_scheduler(run, "4711", observed(State.FAILED, signal=53, nodes="gpu7"))
    error = exception_of(run, DESCRIPTION, status)
    assert isinstance(error, errors.EnvironmentMismatch)
    assert (
        error.message == f"net could not start on gpu7: the node could not open the batch script's log in {run.logs}."
    )
    assert f"srun --nodelist=gpu7 ls -ld {run.path}; " in error.hint
    assert error.facts.signal is None


def test_a_failed_dependency_is_named_in_the_hint(run: RunFolder, tmp_path: Path) -> None:
    """A hint that says ``JOB`` cannot be pasted; the one that has succeeded is not meant."""
    for name, state in {"good": State.COMPLETED, "bad": State.FAILED}.items():
        other = RunFolder(tmp_path / name)
        other.create()
        record_attempt(other, event="queued", attempt=0, job_id=f"job-{name}")
        write_status(other, Status(state=state, job_id=f"job-{name}", attempt=0, ending=Ending(cause="raised")))
    waited = replace(DESCRIPTION, after=[str(tmp_path / "good"), str(tmp_path / "bad")])
    status = Status(state=State.DEPENDENCY_FAILED, job_id="4711", attempt=0, ending=Ending(cause="dependency_failed"))
    error = exception_of(run, waited, status)
    assert isinstance(error, errors.DependencyFailed)
    assert "helpers show job-bad; once more: helpers rerun job-bad;" in error.hint


@pytest.mark.parametrize(
    ("due", "state"), [("", State.CANCELLED), (" DUE TO TIME LIMIT", State.TIMEOUT), (" DUE TO PREEMPTION", State.LOST)]
)
def test_a_forgotten_job_is_known_by_its_batch_log(run: RunFolder, due: str, state: State) -> None:
    """Without accounting a controller forgets; slurmstepd has written into the log why it ended the job."""
    run.batch_log.write_text(
        f"slurmstepd-gpu1: error: *** JOB 4711 ON gpu1 CANCELLED AT 2030-01-01T00:00:00{due} ***\n"
    )
    assert status_from_scheduler(run, "4711", None).state is state


def test_the_end_of_a_large_log_is_read_without_the_rest(tmp_path: Path) -> None:
    """A log may have gigabytes; a progress bar has no newlines but carriage returns."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 10**6 + b"\n" + b"1\r2\r3\nlast")
    assert tail(log, lines=3) == "2\n3\nlast"


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending(cause="exited", exit_code=3), "exit code 3"),
        (Ending(cause="killed", signal="SIGKILL", exit_code=137), "SIGKILL"),
        (Ending(cause="raised", detail="ValueError: no"), "ValueError: no"),
        (Ending(cause="exited"), "exited"),
        (Ending(cause="timeout"), "timeout"),
    ],
)
def test_a_table_says_why_in_a_few_words(ending: Ending, words: str) -> None:
    """``exited`` alone told less than the exit code."""
    assert in_brief(ending) == words
