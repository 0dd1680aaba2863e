"""C45: lines that run before the function, in a real shell; the first that fails ends the job, and is shown."""

import pytest

from helpers import SetupFailed, submit
from tests.unit.submission import functions

PATIENCE_S = 60


def test_the_function_sees_what_a_line_exports() -> None:
    """(a) With the quotes that the user wrote."""
    job = submit(functions.read_variable, "FOO", setup=['export FOO="bar baz"'], cluster="local")
    assert job.result(PATIENCE_S) == "bar baz"


@pytest.mark.parametrize(
    ("lines", "named", "words"),
    [
        (["module load cuda"], "module load cuda", "module: command not found"),
        (["source /nonexistent.sh"], "source /nonexistent.sh", "No such file or directory"),
        (["conda activate x"], "conda activate x", "conda: command not found"),
        (["true", "false", "true"], "false", "false"),
        (["f() { return 4; }", "f load cuda"], "f load cuda", ""),
        (["set -u", "echo $NOT_SET_ANYWHERE"], "echo $NOT_SET_ANYWHERE", "unbound variable"),
        (["exit 3"], "exit 3", ""),
        (["true", "echo 'oops"], "", "unexpected EOF"),
        (["true\nfalse"], "false", ""),
    ],
)
def test_a_line_that_fails_ends_the_job_and_is_shown(lines: list[str], named: str, words: str) -> None:
    """(b) to (d), and what else ends a shell before its time."""
    job = submit(functions.add, 1, setup=lines, cluster="local")
    error = job.exception(PATIENCE_S)
    assert isinstance(error, SetupFailed)
    assert named in error.message
    assert words in error.facts.log_tail
    assert not list(job.folder.glob("attempts/*/started-*"))


@pytest.mark.parametrize("code", [4, 127])
def test_the_exit_code_of_the_line_is_told(code: int) -> None:
    """127 is a command that is not there, 1 is one that did not like something."""
    error = submit(functions.add, 1, setup=[f"(exit {code})"], cluster="local").exception(PATIENCE_S)
    assert isinstance(error, SetupFailed)
    assert error.facts.exit_code == code


@pytest.mark.parametrize(
    "line",
    [
        "f() { grep -q x /dev/null; return 0; }; f",
        "false || true",
        "x=$(false; echo 1)",
        "echo $NOT_SET_ANYWHERE",
    ],
)
def test_a_line_that_succeeds_as_a_whole_is_none_that_fails(line: str) -> None:
    """Site functions such as ``module`` try one thing after another; (f) an unset variable is empty, as in a shell."""
    assert submit(functions.add, 1, setup=[line], cluster="local").result(PATIENCE_S) == 1


def test_what_a_line_prints_is_in_the_log_and_nowhere_else() -> None:
    """(e) A banner of a thousand lines."""
    job = submit(functions.add, 1, setup=["seq 100000 101000"], cluster="local")
    assert job.result(PATIENCE_S) == 1
    assert "101000" in job.logs()
    assert "101000" not in job.logs(rank=0)


def test_strict_shell_options_of_the_lines_do_not_outlive_them() -> None:
    """With ``set -e`` a failing rank ended the script before it could say how the job ended."""
    job = submit(functions.print_and_raise, setup=["set -euo pipefail"], cluster="local")
    assert str(job.exception(PATIENCE_S)) == "boom-123"
