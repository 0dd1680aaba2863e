"""C45: lines that run before the function, in a real shell; the first that fails ends the job, and is shown."""

import shlex
import subprocess
from pathlib import Path

import pytest

from helpers import InvalidRequest, SetupFailed, submit
from helpers.submission.clusters.setup_lines import check_syntax
from tests.unit.submission import functions

PATIENCE_S = 240


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


@pytest.mark.parametrize(
    ("lines", "named", "words"),
    [
        (["true", "echo 'unclosed"], "echo 'unclosed", "unexpected EOF while looking for matching `''"),
        (["true", "if true; then", "true"], "if true; then", "unexpected end of file"),
        (["("], "(", "unexpected end of file"),
        (["true\ndone"], "done", "syntax error near unexpected token `done'"),
        (["if true; then", "done", "fi"], "done", "syntax error near unexpected token `done'"),
        (["cat <<EOF", "true"], "cat <<EOF", "delimited by end-of-file (wanted `EOF')"),
    ],
)
def test_a_line_that_bash_cannot_read_is_refused_and_shown(
    project: Path, lines: list[str], named: str, words: str
) -> None:
    """In the job it swallowed lines of ours, one of which was then shown as the one that had failed."""
    with pytest.raises(InvalidRequest) as refused:
        submit(functions.add, 1, setup=lines, cluster="local")
    said = refused.value.message.splitlines()
    assert said[0] == f"bash cannot read this line of setup: {named}"
    assert words in said[1]
    assert shlex.split(refused.value.hint.partition(": ")[2]) == ["bash", "-n", "-c", "\n".join(lines)]
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["if true", "then", "module load cuda", "fi"],
        ["cat <<EOF", "it's", "EOF"],
        ["shopt -s extglob", "rm -f !(keep)"],
        ["# it's a comment", "[[ $a =~ (x|y) ]]", "diff <(a) <(b)"],
    ],
)
def test_what_bash_can_read_as_a_whole_is_not_refused(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A construct may go over several lines; what they name is there on the node; a locale warns of nothing."""
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    check_syntax(lines)


def test_bash_is_asked_once_for_the_same_lines_and_never_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process would be a fifth of what a submission costs."""
    asked = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, b"", b"")

    monkeypatch.setattr("helpers.submission.clusters.setup_lines.subprocess.run", run)
    check_syntax([])
    assert asked == []
    for _ in range(3):
        check_syntax(["export ASKED=once"])
    assert len(asked) == 1


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
