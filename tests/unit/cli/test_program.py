"""``helpers submit -- PROGRAM``: told apart from a function, and refused where it is not there."""

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

from helpers.testing import FakeSlurm

Command = Callable[..., Result]


def test_a_program_runs_and_its_output_is_followed(command: Command) -> None:
    """Its words are its own, also those that look like options or like arguments of a function."""
    done = command("submit", "--cluster", "local", "--follow", "--", "echo", "--gpus", "lr=1", "a b")
    assert (done.stdout, done.exit_code) == ("--gpus lr=1 a b\n", 0)


def test_a_program_that_fails_fails_the_command(command: Command) -> None:
    """Its code is in the message; ours says that the job failed."""
    done = command("submit", "--cluster", "local", "--wait", "--", "sh", "-c", "exit 6")
    assert done.exit_code == 1
    assert "sh ended with exit code 6" in done.stderr
    shown = command("status", json.loads(command("status", "--json").stdout)[0]["id"]).stdout
    assert "call         sh -c 'exit 6'\n" in shown
    assert "state        FAILED (exit code 6)\n" in shown


@pytest.mark.parametrize("words", [("script:main", "--", "3"), ("--cluster", "local", "script:main", "--", "3")])
def test_dashes_after_a_function_belong_to_its_arguments(command: Command, words: tuple[str, ...]) -> None:
    """As before there were programs."""
    done = command("submit", "--cluster", "local", "--wait", *words)
    assert done.stdout == "{'lr': 3, 'layers': (), 'name': '', 'flag': None}\n"


def test_a_program_that_is_not_there_is_refused_with_a_hint(command: Command) -> None:
    """Before the queue."""
    done = command("submit", "--cluster", "local", "--", "no-such-program")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: There is no program 'no-such-program' on PATH.\nhint: ")


def test_the_scripts_words_are_those_of_a_program(command: Command, slurm: FakeSlurm) -> None:
    """One process for the node's GPUs, no signal; nothing is queued."""
    done = command("submit", "--gpus", "4", "--dry-run", "--", "sh", "fit.sh")
    assert done.exit_code == 0
    assert "-m helpers.runtime.rank.command\n" in done.stdout
    assert "#SBATCH --ntasks-per-node=1\n" in done.stdout
    assert slurm.jobs() == []
