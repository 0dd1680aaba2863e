"""``helpers`` on this machine: what is submitted runs, is seen, and can be stopped."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import Result

from tests.waiting import wait_for

Command = Callable[..., Result]


def record_of(command: Command, job: str) -> dict[str, Any]:
    records = json.loads(command("status", job, "--json").stdout)
    assert len(records) == 1
    record: dict[str, Any] = records[0]
    return record


def test_arguments_reach_the_function_and_its_value_comes_back(command: Command) -> None:
    """The whole way, with each kind of value; stdout holds the value alone."""
    words = ["lr=1e-3", "layers=[1,2]", "name=1.10", "flag=true"]
    done = command("submit", "script:main", *words, "--cluster", "local", "--wait")
    assert done.stdout == "{'lr': 0.001, 'layers': [1, 2], 'name': '1.10', 'flag': True}\n"
    assert done.exit_code == 0


def test_follow_shows_the_log_and_then_the_value(command: Command) -> None:
    """What a person watches, in the order in which it happens."""
    done = command("submit", "script:main", "--cluster", "local", "--follow")
    assert done.stdout.splitlines()[-2:] == ["training", "{'lr': 0.1, 'layers': (), 'name': '', 'flag': None}"]
    assert re.search(r"job local-\d+ completed", done.stderr)


def test_a_function_without_a_value_prints_none(command: Command) -> None:
    """None says nothing; a script that reads stdout gets nothing."""
    done = command("submit", "script:nothing", "--cluster", "local", "--wait")
    assert (done.stdout, done.exit_code) == ("", 0)


def test_a_failure_shows_the_jobs_own_traceback_and_fails(command: Command) -> None:
    """The line that broke, in the user's file; none of ours."""
    done = command("submit", "script:fail", "7", "--cluster", "local", "--wait")
    assert done.exit_code == 1
    assert 'script.py", line 11, in fail' in done.stderr
    assert "raised ValueError: lr is 7" in done.stderr
    assert "helpers/cli" not in done.stderr
    assert done.stdout == ""


def test_a_traceback_that_the_log_has_shown_is_not_shown_again(command: Command) -> None:
    """Twice the same thirty lines make a person look for the difference."""
    done = command("submit", "script:fail", "7", "--cluster", "local", "--follow")
    assert done.output.count("Traceback (most recent call last)") == 1
    assert "raised ValueError: lr is 7" in done.stderr


def test_inline_runs_here_and_shows_the_traceback(command: Command) -> None:
    """For a debugger: same process, same answer, same exit code."""
    good = command("submit", "script:main", "lr=2", "--cluster", "inline")
    bad = command("submit", "script:fail", "7", "--cluster", "inline")
    assert good.stdout.splitlines()[-1] == "{'lr': 2, 'layers': (), 'name': '', 'flag': None}"
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert 'script.py", line 11, in fail' in bad.stderr
    assert "inline.py" not in bad.stderr


def test_following_what_failed_in_this_process_shows_its_traceback(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """``make train ARGS=--here`` of a project: there is no log to look into afterwards."""
    from helpers import submit
    from helpers.cli.following import follow_logs

    def fail(lr: float) -> None:
        raise ValueError(f"lr is {lr}")

    with pytest.raises(typer.Exit):
        follow_logs(submit(fail, 7, cluster="inline"), rank=0)
    said = capsys.readouterr().err
    assert said.count("Traceback (most recent call last)") == 1
    assert 'raise ValueError(f"lr is {lr}")' in said
    assert "inline.py" not in said
    assert said.endswith("error: job inline raised ValueError: lr is 7\n")


def test_submit_status_logs_cancel_agree(command: Command) -> None:
    """One job through the four commands, by nothing but its id."""
    submitted = command("submit", "script:sleep", "--cluster", "local", "--name", "nap")
    job = submitted.stdout.strip()
    assert re.fullmatch(r"local-\d+", job)
    wait_for(lambda: "asleep" in command("logs", job, "--rank", "0").stdout)

    running = record_of(command, job)
    assert (running["id"], running["name"], running["state"], running["attempt"]) == (job, "nap", "RUNNING", 0)
    assert 0 < running["seconds"] < 60

    assert command("cancel", job).stdout == f"{job} is asked to end\n"
    wait_for(lambda: record_of(command, job)["state"] == "CANCELLED")
    assert command("cancel", job).stdout == f"{job} has ended before: CANCELLED\n"

    shown = command("status", job).stdout
    assert re.search(r"^state +CANCELLED", shown, re.MULTILINE)
    assert re.search(rf"^0 +{job} .*CANCELLED .*cancelled$", shown, re.MULTILINE)


def test_a_failed_run_tells_what_is_known_of_it(command: Command) -> None:
    """State, call, attempt, cause and cure, from another process and another day."""
    command("submit", "script:fail", "lr=7", "--cluster", "local", "--wait")
    job = json.loads(command("status", "--json").stdout)[0]["id"]
    shown = command("status", job).stdout
    assert "script.fail(lr=7)" in shown
    assert re.search(rf"^0 +{job} .*FAILED .*raised: ValueError: lr is 7$", shown, re.MULTILINE)
    assert shown.endswith(f"error: ValueError: lr is 7\nhint: helpers logs {job}\n")
    ledger = record_of(command, job)["ledger"]
    assert [line["event"] for line in ledger] == ["queued", "start", "end"]


def test_the_table_holds_a_reason_in_one_short_line(command: Command) -> None:
    """In a pipe, too; the whole of it, with what to do, is in ``helpers status JOB``."""
    command("submit", "script:fail", f"lr='{'long ' * 40}'", "--cluster", "local", "--wait")
    command("submit", "script:_no_gpu", "--cluster", "local", "--wait")
    command("submit", "script:nothing", "--cluster", "local", "--wait")
    table = command("status").stdout.splitlines()
    assert table == [line.rstrip() for line in table]
    assert [len(line) < 160 for line in table] == [True] * 4
    assert table[2].endswith("HelpersError: No GPU.")
    assert table[3].endswith("…")
    job = json.loads(command("status", "--json").stdout)[1]["id"]
    assert "hint: Ask for one." in command("logs", job).stdout


def test_a_set_up_line_that_fails_is_named(command: Command) -> None:
    """The log of rank 0 holds nothing then, so the batch script's has to be shown."""
    done = command("submit", "script:main", "--cluster", "local", "--setup", "true", "--setup", "(exit 3)", "--follow")
    assert done.exit_code == 1
    assert "This set-up line failed with exit code 3, so nothing was run: (exit 3)" in done.stderr
    assert "setup: (exit 3)" in command("status").stdout


def test_logs_show_one_rank_or_all(command: Command) -> None:
    """A hundred ranks that print at once hide the one that matters."""
    command("submit", "script:ranks", "--cluster", "local", "--processes", "2", "--wait")
    job = json.loads(command("status", "--json").stdout)[0]["id"]
    assert ["I am 1" in command("logs", job, "--rank", rank).stdout for rank in "01"] == [False, True]
    everything = command("logs", job).stdout
    assert all(text in everything for text in ("I am 0", "I am 1", "==> logs/batch.log <=="))
    followed = command("logs", "-f", job, "--rank", "1")
    assert (followed.stdout, followed.exit_code) == ("imported\nI am 1\n", 0)


def test_a_rank_that_there_is_not_is_refused(command: Command) -> None:
    """An empty answer would look like a silent rank."""
    command("submit", "script:nothing", "--cluster", "local", "--wait")
    job = json.loads(command("status", "--json").stdout)[0]["id"]
    refused = command("logs", job, "--rank", "4")
    assert (refused.exit_code, refused.stderr.splitlines()[0]) == (2, "error: The job has ranks 0 to 0; got 4.")


def test_following_the_logs_of_a_failed_job_fails(command: Command) -> None:
    """``helpers logs -f`` takes up what ``submit --follow`` left, also its exit code."""
    command("submit", "script:fail", "7", "--cluster", "local", "--wait")
    job = json.loads(command("status", "--json").stdout)[0]["id"]
    followed = command("logs", "-f", job)
    assert followed.exit_code == 1
    assert "raised ValueError: lr is 7" in followed.stderr


def test_a_run_folder_is_as_good_as_an_id(command: Command) -> None:
    """Folders outlive the scheduler's memory and its numbers."""
    command("submit", "script:nothing", "--cluster", "local", "--wait")
    record = json.loads(command("status", "--json").stdout)[0]
    assert record_of(command, record["folder"])["id"] == record["id"]


def test_an_unknown_job_is_an_error_without_a_traceback(command: Command) -> None:
    """Two lines say it: what, and what to do."""
    expected = ["hint: helpers status lists the runs of this project"]
    for words in (["status", "4711"], ["logs", "4711"], ["logs", "-f", "4711"], ["cancel", "4711"]):
        refused = command(*words)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: There is no run '4711' in ")
        assert refused.stderr.splitlines()[1:] == expected


def test_a_project_without_runs_says_so(command: Command) -> None:
    """An empty table looks like a fault."""
    shown = command("status")
    assert (shown.stdout, shown.exit_code) == ("", 0)
    assert shown.stderr.startswith("helpers: no runs in ")


def helpers(*words: str) -> subprocess.Popen[str]:
    """Start the command as a shell would, its output buffered as it is there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen(
        [sys.executable, "-m", "helpers.cli", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_leaves_the_job_alone_and_says_how_to_end_it(command: Command) -> None:
    """Who presses it may want either; the job must not be lost by it."""
    following = helpers("submit", "script:sleep", "--cluster", "local", "--follow")
    assert following.stdout is not None
    assert [following.stdout.readline() for _ in range(2)] == ["imported\n", "asleep\n"]
    following.send_signal(signal.SIGINT)
    _, said = following.communicate(timeout=60)
    job = json.loads(command("status", "--json").stdout)[0]["id"]
    assert following.returncode == 130
    assert said.endswith(f"job {job} goes on; back to it: helpers logs -f {job}   end it: helpers cancel {job}\n")
    assert "Traceback" not in said
    assert record_of(command, job)["state"] == "RUNNING"
    command("cancel", job)


def test_a_reader_that_leaves_early_is_no_error(command: Command) -> None:
    """``helpers logs JOB | head``."""
    command("submit", "script:nothing", "--cluster", "local", "--wait")
    folder = Path(json.loads(command("status", "--json").stdout)[0]["folder"])
    (folder / "logs" / "0" / "0.out").write_text("line\n" * 200_000)
    printing = helpers("logs", str(folder))
    assert printing.stdout is not None
    assert printing.stderr is not None
    printing.stdout.readline()
    printing.stdout.close()
    assert printing.stderr.read() == ""
    assert printing.wait(timeout=60) == 1
    printing.stderr.close()
