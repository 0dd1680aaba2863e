"""What sbatch says, and what submitit must keep for us."""

import inspect
import os
from pathlib import Path
from typing import Any

import pytest
import submitit
from submitit.slurm import slurm as submitit_slurm

from helpers import ClusterUnreachable, Rejected, submit
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.stop import WARNING_SIGNAL
from helpers.submission.clusters import slurm_executor
from helpers.submission.clusters.slurm_executor import RunExecutor, queue_script
from helpers.submission.jobs.watcher import watcher
from helpers.submission.resources.request import read_request


@pytest.fixture
def sbatch(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shim called sbatch, to be written by the test, first on PATH; no pause before it is asked again."""
    shims = project / "shims"
    shims.mkdir()
    shim = shims / "sbatch"
    shim.touch(mode=0o755)
    other = shims / "scontrol"
    other.touch(mode=0o755)
    other.write_text("#!/bin/sh\necho 'ClusterName = demo'\n")
    monkeypatch.setenv("PATH", f"{shims}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm_executor, "_BUSY_DELAYS_S", (0, 0))
    monkeypatch.setattr(watcher, "watch", lambda _job: None)  # nobody knows job 4711
    return shim


def submit_to(sbatch: Path, script: str, **keywords: Any) -> str:
    """Submit to a shim and return the job's id."""
    sbatch.write_text(f"#!/bin/sh\n{script}\n")
    return submit(print, "hello", cluster="slurm", **keywords).id


@pytest.mark.parametrize(
    "printed",
    [
        "4711",
        "4711;demo",
        "You used 3 of 10 job slots\n4711",
        "4711;demo\nGood bye, 8 jobs left",
        "Submitted batch job 4711 on cluster demo",
    ],
)
def test_the_id_is_read_among_a_sites_notices(sbatch: Path, printed: str) -> None:
    """C13: numbers in the notices were taken for the id."""
    assert submit_to(sbatch, f"echo 'Notice 1 of 2' >&2; echo '{printed}'") == "4711"


def test_success_without_an_id_is_an_error_that_shows_what_was_printed(sbatch: Path) -> None:
    """Without the id nothing can be followed or cancelled."""
    with pytest.raises(Rejected, match="nothing of note"):
        submit_to(sbatch, "echo nothing of note")


def test_a_refusal_is_told_in_slurms_words(sbatch: Path) -> None:
    """Only Slurm knows the rules of its site."""
    script = "echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1"
    with pytest.raises(Rejected, match="refused the job: Batch job submission failed: Invalid qos specification"):
        submit_to(sbatch, script)


def test_a_silent_controller_is_not_a_refusal(sbatch: Path) -> None:
    """A refusal is for good; a silent controller comes back."""
    script = "echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        submit_to(sbatch, script)


def test_a_busy_controller_is_asked_again(sbatch: Path, project: Path) -> None:
    """A loop of submissions meets "Socket timed out" sooner or later."""
    script = "[ -e asked ] && echo 4711 && exit; touch asked; echo 'Socket timed out on send/recv' >&2; exit 1"
    assert submit_to(sbatch, script) == "4711"


LOST = "echo x >>asked; echo 'Socket timed out on send/recv' >&2; exit 1"


def queue_with_a_lost_answer(sbatch: Path, known: list[str] | None) -> str:
    """Queue a script, as 4713, whose answer is lost; it was queued as 4712 before."""
    script = sbatch.with_name("script.sh")
    script.touch()
    sbatch.write_text(f"#!/bin/sh\n{LOST}\n")
    squeue = sbatch.with_name("squeue")
    squeue.touch(mode=0o755)
    squeue.write_text(f"#!/bin/sh\nprintf '4712\\037{script}\\n4713\\037{script}\\n'\n")
    return queue_script(["sbatch"], script, "--dependency=afterok:1", known=known)


def test_a_job_whose_answer_is_lost_is_not_queued_twice(sbatch: Path, project: Path) -> None:
    """One that waits for others was, and each part of an array; a resumed one is not taken for its last start."""
    assert queue_with_a_lost_answer(sbatch, ["4712"]) == "4713"
    assert (project / "asked").read_text() == "x\n"


def test_a_script_that_several_jobs_are_queued_with_tells_of_none(sbatch: Path) -> None:
    """An element that is resumed beside another would be taken for that one."""
    with pytest.raises(ClusterUnreachable):
        queue_with_a_lost_answer(sbatch, None)


@pytest.mark.parametrize("words", ["Invalid qos", "Unable to contact slurm controller"])
def test_what_was_not_queued_leaves_no_run_folder(sbatch: Path, project: Path, words: str) -> None:
    """It would be listed as one that waits for ever."""
    with pytest.raises((Rejected, ClusterUnreachable)):
        submit_to(sbatch, f"echo '{words}' >&2; exit 1")
    assert list((project / "runs" / "print").iterdir()) == []


def test_no_sbatch_at_all_is_unreachable(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """PATH has lost a folder; the job must not run on the login node instead."""
    monkeypatch.setenv("SLURM_CONF", str(project / "slurm.conf"))
    monkeypatch.setenv("PATH", str(project))
    with pytest.raises(ClusterUnreachable, match="no sbatch on PATH"):
        submit(print, 1)


@pytest.mark.parametrize(
    ("variable", "asked"),
    [
        ("SBATCH_PARTITION", {"partition": "gpu"}),
        ("SBATCH_TIMELIMIT", {"time": "1h"}),
        ("SBATCH_GRES", {"gpus": 1}),
        ("SBATCH_MEM_PER_CPU", {"mem": "4G"}),
        ("SBATCH_ARRAY_INX", {}),
        ("SBATCH_WAIT", {}),
        ("SBATCH_OUTPUT", {}),
    ],
)
def test_a_variable_of_the_shell_does_not_outrank_the_call(
    sbatch: Path, monkeypatch: pytest.MonkeyPatch, variable: str, asked: dict[str, Any]
) -> None:
    """To sbatch a variable counts more than a line of the script: a partition that was asked for was not taken."""
    monkeypatch.setenv(variable, "from the shell")
    submit_to(sbatch, "env > environment; echo 4711", **asked)
    assert f"{variable}=" not in Path("environment").read_text()


@pytest.mark.parametrize("variable", ["SBATCH_PARTITION", "SBATCH_ACCOUNT", "SBATCH_RESERVATION"])
def test_a_variable_of_the_shell_says_what_the_call_leaves_open(
    sbatch: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Many people have their account there."""
    monkeypatch.setenv(variable, "from the shell")
    submit_to(sbatch, "env > environment; echo 4711", time="1h")
    assert f"{variable}=from the shell\n" in Path("environment").read_text()


def test_submitit_has_the_function_that_writes_the_header() -> None:
    """The text of the batch script's header is submitit's."""
    assert callable(getattr(submitit_slurm, "_make_sbatch_string", None)), "submitit has moved _make_sbatch_string"


@pytest.mark.parametrize(
    "parameter",
    [
        *("command", "folder", "job_name", "partition", "time", "nodes", "ntasks_per_node", "cpus_per_task"),
        *("gpus_per_node", "qos", "mem", "signal_delay_s", "account", "stderr_to_stdout", "wckey"),
        *("additional_parameters", "use_srun"),
    ],
)
def test_submitits_header_takes_what_we_give_it(parameter: str) -> None:
    """A parameter that is renamed would be refused at the first submission of every user."""
    known = inspect.signature(submitit_slurm._make_sbatch_string).parameters
    assert parameter in known, f"submitit's _make_sbatch_string has lost {parameter!r}"


@pytest.mark.parametrize("name", ["_convert_parameters", "_make_submission_command"])
def test_submitits_executor_has_the_methods_that_we_call(name: str) -> None:
    """They are private, and may move with any release."""
    assert hasattr(submitit.SlurmExecutor, name), f"submitit's SlurmExecutor has lost {name}"


def test_submitit_converts_the_common_names_to_slurms() -> None:
    """``tasks_per_node`` and ``mem_gb`` are what users of submitit write."""
    asked = {"name": "x", "timeout_min": 5, "tasks_per_node": 2, "mem_gb": 1.5, "nodes": 1}
    executor = submitit.SlurmExecutor.__new__(submitit.SlurmExecutor)
    assert executor._convert_parameters(asked) == {
        "job_name": "x",
        "time": 5,
        "ntasks_per_node": 2,
        "mem": "1536MB",
        "nodes": 1,
    }


def test_submitits_executor_keeps_its_parameters_in_a_dictionary(tmp_path: Path) -> None:
    """They go there as they are: its own way writes the whole script once more."""
    executor = RunExecutor(RunFolder(tmp_path), read_request().settle(), name="first", requeue=True)
    assert executor.parameters["job_name"] == "first"


def test_submitit_submits_by_sbatch_and_the_script(tmp_path: Path) -> None:
    """``--parsable`` is put between the two."""
    executor = submitit.SlurmExecutor.__new__(submitit.SlurmExecutor)
    assert executor._make_submission_command(tmp_path) == ["sbatch", str(tmp_path)]


def test_submitit_asks_for_the_signal_that_we_listen_to() -> None:
    """With another one the warning before the time limit would end the process."""
    assert f"SIG{submitit_slurm.SlurmJobEnvironment.USR_SIG}" == WARNING_SIGNAL.name
