"""What the command asks of Slurm, and what it makes of the answers."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from helpers.cli.runs import _reason
from helpers.runtime.run.status import State
from helpers.submission.clusters.slurm_queue import Observation
from helpers.testing import FakeSlurm, Node, Partition, Settings

Command = Callable[..., Result]


@pytest.fixture
def fake_slurm_settings() -> Settings:
    """A cluster that has what the options ask for, and a queue that soon forgets."""
    nodes = (Node(name="n1", features=("h100",)), Node(name="n2", features=("h100",)))
    return Settings(nodes=nodes, partitions=(Partition(name="p", is_default=True),), accounting=False)


def scancel(job: str) -> None:
    """Cancel as somebody else would."""
    subprocess.run(["scancel", job], check=True)


def test_every_option_reaches_the_batch_script(command: Command, slurm: FakeSlurm) -> None:
    """An option that is read and dropped costs a queue's wait."""
    words = ["--gpus", "a100:4", "--time", "90", "--nodes", "2", "--cpus", "3", "--mem", "8G", "--partition", "p"]
    words += ["--account", "a", "--qos", "q", "--name", "n", "--setup", "module load x", "--setup", "second"]
    words += ["--no-requeue", "--slurm", "constraint=h100", "--slurm", "exclusive", "--dry-run"]
    done = command("submit", "script:main", *words)
    lines = done.stdout.splitlines()
    expected = {
        "--gpus-per-node=a100:2", "--time=90", "--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=3", "--mem=8GB",
        "--partition=p", "--account=a", "--qos=q", "--job-name=n", "--no-requeue", "--constraint=h100", "--exclusive",
    }  # fmt: skip
    assert expected - {line.removeprefix("#SBATCH ") for line in lines} == set()
    assert [line for line in lines if line.startswith(("module load x", "second"))] != []
    assert slurm.jobs() == []


def test_the_id_alone_is_on_stdout(command: Command, slurm: FakeSlurm) -> None:
    """``id=$(helpers submit …)``."""
    done = command("submit", "script:main")
    assert (done.stdout, done.exit_code) == ("1\n", 0)
    assert "helpers: job 1 · " in done.stderr
    assert len(slurm.calls("sbatch")) == 1


def test_processes_and_requeue_are_handed_on(command: Command, slurm: FakeSlurm) -> None:
    """The two that the script shows otherwise."""
    done = command("submit", "script:main", "--processes", "3", "--requeue", "--dry-run")
    assert "#SBATCH --ntasks-per-node=3" in done.stdout
    assert "#SBATCH --requeue" in done.stdout
    assert slurm.jobs() == []


def test_all_runs_cost_one_question(command: Command, slurm: FakeSlurm) -> None:
    """A question for each of twenty runs is what cluster owners ban people for."""
    command("submit", "script:sleep")
    slurm.release_queue()
    slurm.wait_for("1", "RUNNING")
    slurm.hold_queue(reason="Resources")
    for _ in range(2):
        command("submit", "script:main")
    asked = len(slurm.calls("squeue"))
    shown = json.loads(command("status", "--json").stdout)
    assert {run["id"]: (run["state"], run["reason"]) for run in shown} == {
        "1": ("RUNNING", ""),
        "2": ("PENDING", "Resources"),
        "3": ("PENDING", "Resources"),
    }
    assert [word for word in slurm.calls("squeue")[asked:] for word in word if "1,2,3" in word] != []
    assert len(slurm.calls("squeue")) == asked + 1


def test_a_job_that_slurm_clears_away_is_told_by_slurms_word() -> None:
    """It has ended, its node is not free yet: a state that lasts for a moment, too short to be met with a job."""
    clearing = Observation(state=State.RUNNING, word="COMPLETING", reason="None")
    assert _reason(clearing) == "COMPLETING"
    assert _reason(replace(clearing, word="RUNNING")) == ""


def test_a_person_reads_why_a_job_waits_and_a_program_slurms_word(command: Command, slurm: FakeSlurm) -> None:
    """A word such as QOSMaxGRESPerUser has to be looked up; a sentence does not."""
    command("submit", "script:main")
    sentence = "Priority: Jobs with a higher priority are before it."
    assert command("status").stdout.rstrip().endswith(sentence)
    assert f"PENDING ({sentence})" in command("status", "1").stdout
    assert json.loads(command("status", "--json").stdout)[0]["reason"] == "Priority"


def ended_by_slurm(folder: Path, state: str, ending: dict[str, Any]) -> None:
    """Let a run have begun at second 100, and Slurm have ended it, batch script and all."""
    start = {"time": 100.0, "event": "start", "attempt": 0, "job_id": "1", "nodes": "gpu1", "checkpoint": None}
    with (folder / "jobs.jsonl").open("a") as ledger:
        ledger.write(json.dumps(start) + "\n")
    facts = {"rank": None, "node": None, "exit_code": None, "signal": None, "detail": "", **ending}
    status = {"state": state, "job_id": "1", "attempt": 0, "ending": facts, "updated": 9e9}
    (folder / "status.json").write_text(json.dumps(status))


def test_a_run_that_slurm_ended_has_lasted_until_its_last_word(
    command: Command, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """A run that used its whole time limit must not look as if it had not run."""
    command("submit", "script:main")
    folder = next((tmp_path / "runs" / "main").iterdir())
    ended_by_slurm(folder, "TIMEOUT", {"cause": "timeout", "signal": "SIGKILL"})
    (folder / "logs" / "batch.log").write_text("*** JOB 1 CANCELLED DUE TO TIME LIMIT ***")
    os.utime(folder / "logs" / "batch.log", (400.0, 400.0))
    assert json.loads(command("status", "--json").stdout)[0]["seconds"] == 300.0


def test_status_gives_its_hints_for_the_shell_too(command: Command, slurm: FakeSlurm, tmp_path: Path) -> None:
    """The line is pasted where it is read."""
    command("submit", "script:main", "--mem", "2")
    ended_by_slurm(next((tmp_path / "runs" / "main").iterdir()), "OUT_OF_MEMORY", {"cause": "out_of_memory"})
    shown = command("status", "1").stdout
    assert "more host memory than it asked for (2G per node)" in shown
    assert "hint: ask for more: --mem 4G; or " in shown


def test_the_newest_twenty_are_shown_unless_all_are_wanted(command: Command, slurm: FakeSlurm, tmp_path: Path) -> None:
    """A project of a year has thousands."""
    for _ in range(2):
        command("submit", "script:main")
    source = next((tmp_path / "runs" / "main").iterdir())
    for number in range(21):
        copy = source.with_name(f"20200101-{number:06}-abcdef")
        copy.mkdir()
        for name in ("run.json", "jobs.jsonl"):
            (copy / name).write_bytes((source / name).read_bytes())
    assert len(json.loads(command("status", "--json").stdout)) == 20
    assert len(json.loads(command("status", "--json", "--all").stdout)) == 23
    assert sorted(run["id"] for run in json.loads(command("status", "--json").stdout)[:2]) == ["1", "2"]


def test_a_cancel_that_only_slurm_knows_is_remembered(command: Command, slurm: FakeSlurm) -> None:
    """The controller forgets within minutes; the run must not be lost with it."""
    command("submit", "script:main")
    scancel("1")
    assert json.loads(command("status", "--json").stdout)[0]["state"] == "CANCELLED"
    slurm.forget("1")
    assert json.loads(command("status", "--json").stdout)[0]["state"] == "CANCELLED"


def test_a_job_out_of_sight_is_lost_for_now_and_not_written_off(command: Command, slurm: FakeSlurm) -> None:
    """Slurm without accounting may have forgotten it, and another look may find it again."""
    command("submit", "script:main")
    slurm.forget("1")
    run = json.loads(command("status", "--json").stdout)[0]
    assert run["state"] == "LOST"
    assert not (Path(run["folder"]) / "status.json").exists()


def test_a_silent_controller_leaves_what_the_folders_say(command: Command, slurm: FakeSlurm) -> None:
    """What is known is shown; that it may be old is said, and the exit code is 4."""
    command("submit", "script:main", "--name", "kept")
    with slurm.controller_down():
        shown = command("status")
    assert shown.exit_code == 4
    assert "kept" in shown.stdout
    assert "Unable to contact slurm controller" in shown.stderr


def test_a_refusal_is_slurms_sentence_and_exit_code_3(command: Command, slurm: FakeSlurm) -> None:
    """The script that queued a hundred jobs can tell a refusal from a failed job."""
    done = command("submit", "script:main", "--slurm", "reservation=friday")
    assert done.exit_code == 3
    assert done.stderr.splitlines()[-2:] == [
        "error: Slurm refused the job: Batch job submission failed: Requested reservation is invalid",
        "hint: --dry-run shows the script",
    ]
    assert done.stdout == ""


def test_slurm_without_its_commands_is_exit_code_4(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Never a run on the login node because PATH lost a folder."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command("submit", "script:main").exit_code == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus", "x"], "gpus is a number, or type:number; got 'x'."),
        (["--time", "0"], "A time limit is at least 1 minute, got 0."),
        (["--mem", "much"], "Memory is written as 64G or 500M; got 'much'."),
        (["--cluster", "moon"], "cluster is 'auto', 'slurm', 'local' or 'inline'; got 'moon'."),
        (["lrr=1"], "got an unexpected keyword argument 'lrr'."),
    ],
)
def test_a_broken_rule_is_exit_code_2_and_queues_nothing(
    command: Command, slurm: FakeSlurm, words: list[str], message: str
) -> None:
    """The rule and the value that broke it, without a traceback."""
    done = command("submit", "script:main", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert slurm.jobs() == []


def test_cancel_asks_scancel_and_only_for_what_still_runs(command: Command, slurm: FakeSlurm) -> None:
    """A job that has ended is left alone, and said."""
    for _ in range(2):
        command("submit", "script:main")
    scancel("2")
    done = command("cancel", "1", "2")
    assert done.stdout == "1 is asked to end\n2 has ended before: CANCELLED\n"
    assert slurm.calls("scancel") == [["2"], ["1"]]


def test_nothing_is_cancelled_where_one_id_is_wrong(command: Command, slurm: FakeSlurm) -> None:
    """A slip in the second id must not leave the first half done."""
    command("submit", "script:main")
    assert command("cancel", "1", "4711").exit_code == 2
    assert slurm.calls("scancel") == []


def test_a_folder_that_cannot_be_read_does_not_hide_the_others(
    command: Command, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """One run of another version must not take the table away."""
    command("submit", "script:main")
    broken = tmp_path / "runs" / "main" / "20200101-000000-abcdef"
    broken.mkdir()
    (broken / "run.json").write_text("{}")
    shown = command("status", "--json")
    assert [run["id"] for run in json.loads(shown.stdout)] == ["1"]
    assert f"{broken} cannot be read" in shown.stderr


def test_a_local_run_of_another_machine_is_not_judged_from_here(command: Command, tmp_path: Path) -> None:
    """Its process cannot be seen from here; to call it lost would be a guess."""
    command("submit", "script:nothing", "--cluster", "local", "--wait")
    folder = next((tmp_path / "runs" / "nothing").iterdir())
    start = {"time": 1.0, "event": "start", "attempt": 0, "job_id": "local-1", "nodes": "elsewhere", "checkpoint": None}
    (folder / "jobs.jsonl").write_text(json.dumps(start) + "\n")
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "state": "RUNNING", "ending": None}))
    run = json.loads(command("status", "--json").stdout)[0]
    assert (run["state"], run["nodes"]) == ("RUNNING", "elsewhere")


def test_the_attempts_of_a_run_are_listed_with_their_steps_and_causes(
    command: Command, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """Why it came back, from where it went on, under which id."""
    command("submit", "script:main")
    ledger = next((tmp_path / "runs" / "main").iterdir()) / "jobs.jsonl"
    begun = {"time": 100.0, "event": "start", "attempt": 0, "job_id": "1", "nodes": "node1", "checkpoint": None}
    ended = {"time": 250.0, "event": "end", "attempt": 0, "job_id": "1", "state": "REQUEUED", "cause": "timeout"}
    again = {"time": 300.0, "event": "start", "attempt": 1, "job_id": "1", "nodes": "node2"}
    lines = [begun, {**ended, "step": 120, "detail": ""}, {**again, "checkpoint": "step-00000120"}]
    with ledger.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    (ledger.parent / "status.json").write_text(
        json.dumps({"state": "REQUEUED", "job_id": "1", "attempt": 1, "ending": None, "updated": 300.0})
    )
    shown = [" ".join(line.split()) for line in command("status", "1").stdout.splitlines()]
    moments = [line for line in shown if line.startswith(("0 1 ", "1 1 "))]
    assert [re.sub(r"(\d\d-\d\d )?\d\d:\d\d", "T", line) for line in moments] == [
        "0 1 T 2min 120 REQUEUED node1 timeout",
        "1 1 T step-00000120 PENDING node2",
    ]
