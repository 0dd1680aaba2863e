"""``rerun``, ``resume``, ``show``, ``logs --attempt``, ``status --watch``: one job, looked at and run again."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from helpers.cli.completion import complete_job
from tests.unit.cli.terminal import helpers_on_terminal
from tests.waiting import wait_for

Command = Callable[..., Result]
TWICE = '[ "$HELPERS_ATTEMPT" = 1 ] || { echo first; exit 75; }; echo second'


def newest(command: Command) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(command("status", "--json").stdout)[0]
    return record


def test_a_rerun_prints_the_new_id(command: Command) -> None:
    """What a script goes on with."""
    command("submit", "script:main", "--cluster", "local", "--wait")
    first = newest(command)
    again = command("rerun", first["id"])
    assert again.exit_code == 0
    wait_for(lambda: newest(command)["state"] == "COMPLETED")
    assert newest(command)["id"] == again.stdout.strip() != first["id"]
    record = json.loads(command("rerun", first["id"], "--json").stdout)[0]
    assert sorted(record) == ["folder", "id"]
    wait_for(lambda: newest(command)["state"] == "COMPLETED")


def test_a_resume_without_a_checkpoint_is_refused(command: Command) -> None:
    """With the command that runs it from the start."""
    command("submit", "script:fail", "7", "--cluster", "local", "--wait")
    job = newest(command)["id"]
    refused = command("resume", job)
    assert refused.exit_code == 2
    assert (
        refused.stderr
        == f"error: Job {job} has saved nothing to go on from.\nhint: from the start: helpers rerun {job}\n"
    )


def test_a_resumed_run_keeps_its_folder(command: Command) -> None:
    """One that was ended because it had only asked to be run again."""
    script = '[ "$HELPERS_ATTEMPT" -gt 2 ] || exit 75'
    command("submit", "--cluster", "local", "--wait", "--", "sh", "-c", script)
    before = newest(command)
    assert before["state"] == "FAILED"
    resumed = command("resume", before["id"], "--json")
    assert json.loads(resumed.stdout)[0]["folder"] == before["folder"]
    wait_for(lambda: newest(command)["state"] == "COMPLETED")
    assert newest(command)["attempt"] == 3


@pytest.mark.parametrize("name", ["rerun", "resume", "show"])
def test_an_unknown_job_is_refused(command: Command, name: str) -> None:
    """By each of them in the same words."""
    refused = command(name, "4711")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "There is no run '4711'" in refused.stderr


@pytest.mark.parametrize("text", ["{cut off", "[]", "{}"])
@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["status"], ["logs"], ["cancel"], ["rerun"]])
def test_a_run_that_cannot_be_read_is_an_error(command: Command, words: list[str], text: str) -> None:
    """Asked for by name, it was a traceback, or nothing and a 0."""
    command("submit", "script:nothing", "--cluster", "inline")
    folder = newest(command)["folder"]
    (Path(folder) / "run.json").write_text(text)
    refused = command(words[0], folder, *words[1:])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: {folder}/run.json cannot be read: ")


def test_show_tells_everything_of_one_job(command: Command) -> None:
    """Call, attempts, cause, cure, code, log; one page."""
    command("submit", "script:fail", "lr=7", "--cluster", "local", "--wait")
    job, folder = newest(command)["id"], Path(newest(command)["folder"])
    wait_for((folder / "provenance.json").exists, "the record, which a process beside the job writes")
    shown = command("show", job).stdout
    for text in ("script.fail(lr=7)", "error: ValueError: lr is 7", "python.version", "==> logs/0/0.err <=="):
        assert text in shown
    assert shown.endswith("ValueError: lr is 7\n")
    assert "==> " not in command("show", job, "--lines", "0").stdout


def test_show_gives_programs_one_object(command: Command) -> None:
    """And scripts the script."""
    command("submit", "script:nothing", "--cluster", "local", "--wait")
    job = newest(command)["id"]
    record = json.loads(command("show", job, "--json").stdout)
    assert (record["id"], record["submission"]["name"], record["state"]) == (job, "nothing", "COMPLETED")
    assert {"ledger", "provenance", "ending"} <= set(record)
    assert command("show", job, "--script").stdout == (Path(record["folder"]) / "submission.sh").read_text()
    refused = command("show", job, "--script", "--json")
    assert (refused.exit_code, f"hint: helpers show {job} --script" in refused.stderr) == (2, True)


def test_logs_of_one_attempt(command: Command) -> None:
    """The one before it failed."""
    command("submit", "--cluster", "local", "--wait", "--", "sh", "-c", TWICE)
    job = newest(command)["id"]
    assert command("logs", job, "--rank", "0", "--attempt", "0").stdout == "==> logs/0/0.out <==\nfirst\n"
    assert command("logs", "-f", job, "--attempt", "1").stdout == "second\n"
    refused = command("logs", job, "--attempt", "2")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: The job has attempts 0 to 1; got attempt 2.\n")


def test_watch_needs_a_terminal(command: Command) -> None:
    """In a file it would be a heap of tables."""
    command("submit", "script:nothing", "--cluster", "inline")
    refused = command("status", "--watch")
    assert refused.exit_code == 2
    assert "--watch needs a terminal" in refused.stderr


def test_a_table_of_no_runs_is_not_kept(command: Command) -> None:
    """It was a traceback on a terminal."""
    shown, code = helpers_on_terminal("status", "--watch")
    assert (shown.startswith("helpers: no runs in "), code) == (True, 0)


def test_a_table_that_is_kept_is_no_json(command: Command) -> None:
    """A program that asked for JSON got a table."""
    refused = command("status", "--watch", "--json")
    assert (refused.exit_code, "hint: helpers status --json" in refused.stderr) == (2, True)


def test_watch_keeps_the_table_until_all_have_ended(command: Command) -> None:
    """And leaves the last one on the terminal."""
    command("submit", "--cluster", "local", "--", "sleep", "4")
    shown, code = helpers_on_terminal("status", "--watch")
    assert code == 0
    assert re.search(r"(RUNNING|PENDING)(.|\n)*COMPLETED", shown)


def test_ids_are_completed(command: Command, project: Path) -> None:
    """Newest first, each with what it is."""
    assert project.exists()
    command("submit", "script:nothing", "--cluster", "local", "--wait")
    job = newest(command)["id"]
    assert complete_job("local-") == [(job, "nothing COMPLETED")]
    assert complete_job("47") == []


def test_help_is_in_panels(command: Command) -> None:
    """What one types daily stands first."""
    shown = command("--help").stdout
    assert shown.index("Everyday:\n  submit ") < shown.index("Project:\n")
    assert "  gc " in shown[shown.index("Project:\n") :]
