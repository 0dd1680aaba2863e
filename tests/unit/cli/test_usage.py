"""Wrong usage is one clear line and what to do; what programs read is JSON in every command."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from helpers.testing import FakeSlurm

Command = Callable[..., Result]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["statu"], "error: No such command 'statu'. Did you mean 'status'?\nhint: helpers --help\n"),
        (
            ["config", "explian"],
            "error: No such command 'explian'. Did you mean 'explain'?\nhint: helpers config --help\n",
        ),
        (["logs"], "error: Missing argument 'JOB'.\nhint: helpers logs --help\n"),
        (["cancel", "--now"], "error: No such option: --now\nhint: helpers cancel --help\n"),
        (["submit", "--name=", "script:main"], "error: --name is given, and is empty.\nhint: leave --name out\n"),
        (["submit", "--setup=", "script:main"], "error: --setup is given, and is empty.\nhint: leave --setup out\n"),
        (["notebook", "--port", "0"], "error: A port is a number from 1 to 65535; got 0.\nhint: --port 8888\n"),
        (
            ["submit", "--json", "--wait", "script:main"],
            "error: --json is the answer of a submission that does not wait.\nhint: helpers status ID --json\n",
        ),
    ],
)
def test_wrong_usage_is_two_lines(command: Command, words: list[str], said: str) -> None:
    """As every other error: what is wrong, what to do; no screen of usage in which it is lost."""
    done = command(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.replace("root", "helpers") == said


@pytest.mark.parametrize("option", ["--nodes", "--processes", "--cpus"])
@pytest.mark.parametrize("value", ["x", "-1", "1.5"])
def test_a_number_that_is_none_is_named(command: Command, option: str, value: str) -> None:
    """The parser of options said "unable to parse string as an integer", and not which string."""
    done = command("submit", option, value, "--cluster", "local", "script:main")
    assert done.exit_code == 2
    assert (
        f"error: {option[2:]} is a whole number from 1 up; got {value if value == '-1' else repr(value)}."
        in done.stderr
    )


def test_a_partition_where_there_is_no_slurm_is_refused(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option was dropped, and the answer looked as if that partition had no GPUs."""
    monkeypatch.setattr("helpers.submission.clusters.choice.slurm_is_configured", lambda *_: False)
    refused = command("gpus", "--partition", "a100")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "no partition 'a100'" in refused.stderr


def commands(group: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each command with its options."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, f"{path}{name} ")
        else:
            yield f"{path}{name}", [option for parameter in one.params for option in parameter.opts]


def test_every_command_answers_programs() -> None:
    """Three had been left out."""
    from typer.main import get_command

    from helpers.cli.main import app

    found = dict(commands(get_command(app)))
    assert {"submit", "env sync", "config explain"} <= set(found)
    assert [name for name, options in found.items() if "--json" not in options] == []


def test_an_environment_is_told_in_json(command: Command, project: Path) -> None:
    """What was written, and what became of each line that was taken in."""
    (project / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "0"\nrequires-python = ">=3.11"\n')
    (project / "requirements.txt").write_text("numpy\n")
    assert json.loads(command("env", "sync", "--json").stdout) == {
        "written": ["environment.yml", "container.def"],
        "differences": [],
    }
    adopted = json.loads(command("env", "adopt", "requirements.txt", "--json").stdout)
    assert (adopted["conda"] + adopted["pip"], adopted["written"]) == (["numpy"], ["environment.yml"])
    planned = json.loads(command("env", "build", "--dry-run", "--json", "--time", "30min").stdout)
    assert planned["script"].startswith("#!/bin/bash")
    (project / "environment.yml").write_text((project / "environment.yml").read_text() + "# more\n")
    differ = command("env", "sync", "--check", "--json")
    assert (differ.exit_code, json.loads(differ.stdout)["written"]) == (1, [])


def test_what_programs_need_of_a_job_is_json(command: Command, slurm: FakeSlurm) -> None:
    """From submission to the end, without a word to be cut out of a sentence."""
    tried = json.loads(command("submit", "script:main", "--dry-run", "--json").stdout)
    assert tried["script"].startswith("#!/bin/bash")
    job = json.loads(command("submit", "script:main", "--json", "--name", "first").stdout)
    assert (job["id"], job["name"], slurm.job(job["id"]).name) == ("1", "first", "first")
    assert json.loads(command("cancel", "1", "--json").stdout) == [{"id": "1", "state": "PENDING", "asked": True}]
    assert json.loads(command("logs", "1", "--json").stdout) == []
    assert command("logs", "1", "--json", "--follow").exit_code == 2


def test_logs_as_json_name_their_files(command: Command) -> None:
    """The traceback after what was printed, each under its path."""
    command("submit", "script:fail", "7", "--cluster", "local", "--wait")
    job = json.loads(command("status", "--json").stdout)[0]["id"]
    texts = json.loads(command("logs", job, "--rank", "0", "--json").stdout)
    assert [one["path"].rpartition("/")[2] for one in texts] == ["0.out", "0.err"]
    assert texts[1]["text"].endswith("ValueError: lr is 7\n")
