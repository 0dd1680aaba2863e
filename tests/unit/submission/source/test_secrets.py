"""Secrets in ``.env`` reach the job, and nothing that others may read."""

import os
from pathlib import Path

import pytest

from helpers import InvalidRequest, submit, submit_array, submit_command
from helpers.submission.source.secrets import parse_secrets

SECRET = "s3cr3t-0f-m1ne"  # noqa: S105 -- the point of the test
PATIENCE_S = 240


def read_variables(*names: str) -> list[str | None]:
    return [os.environ.get(name) for name in names]


def fail() -> None:
    raise ValueError("some fault")


@pytest.fixture(autouse=True)
def _secrets(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    (project / ".env").write_text(f"# mine\nexport TOKEN={SECRET}\nCOLOUR=blue\nNOT_YET=\n")


def files_with(text: str, folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def test_a_secret_reaches_the_function_and_is_in_no_record(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Run folders are shared with a group, and copied into tickets."""
    job = submit(read_variables, "TOKEN", cluster="local")
    assert job.result(PATIENCE_S) == [SECRET]
    where = files_with(SECRET, project / "runs")
    run = job.folder.relative_to(project / "runs").as_posix()
    assert where == [f"{run}/private/environment", f"{run}/private/result-0.pkl"]
    assert SECRET not in "".join(capfd.readouterr())


def test_a_job_that_fails_tells_no_secret(project: Path) -> None:
    """Tracebacks, endings and the message of the error."""
    job = submit(fail, cluster="local")
    error = job.exception(PATIENCE_S)
    assert SECRET not in repr(error) + "".join(getattr(error, "__notes__", []))
    run = job.folder.relative_to(project / "runs").as_posix()
    assert files_with(SECRET, project / "runs") == [f"{run}/private/environment"]


def test_only_the_owner_can_read_them(project: Path) -> None:
    """Also while a umask of 002 shares everything else with the group."""
    before = os.umask(0o002)
    try:
        job = submit(read_variables, cluster="local")
    finally:
        os.umask(before)
    file = job.folder / "private" / "environment"
    assert [path.stat().st_mode & 0o777 for path in (file, file.parent)] == [0o600, 0o700]
    job.result(PATIENCE_S)


def test_what_is_set_already_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """``TOKEN=… python train.py`` is said for this one time."""
    monkeypatch.setenv("TOKEN", "of the shell")
    assert submit(read_variables, "TOKEN", "COLOUR", cluster="local").result(PATIENCE_S) == ["of the shell", "blue"]


def test_what_setup_exports_counts_more() -> None:
    """It is said for these jobs."""
    job = submit(read_variables, "COLOUR", cluster="local", setup="export COLOUR=red")
    assert job.result(PATIENCE_S) == ["red"]


def test_a_name_that_is_not_filled_in_is_not_set() -> None:
    """``WANDB_API_KEY=`` from the example would be an empty key."""
    assert submit(read_variables, "NOT_YET", cluster="local").result(PATIENCE_S) == [None]


def test_inline_has_them_while_it_runs() -> None:
    """As in a job; afterwards this process is as it was."""
    assert submit(read_variables, "TOKEN", cluster="inline").result() == [SECRET]
    assert "TOKEN" not in os.environ


def test_a_program_has_them(project: Path) -> None:
    """R and wandb's own command line look for the same variables."""
    job = submit_command(["sh", "-c", 'test "$TOKEN" = ' + SECRET[:4] + '*; echo "${#TOKEN}"'], cluster="local")
    job.result(PATIENCE_S)
    assert job.logs(rank=0).strip().endswith(str(len(SECRET)))
    run = job.folder.relative_to(project / "runs").as_posix()
    assert files_with(SECRET, project / "runs") == [f"{run}/private/environment"]


def test_the_elements_of_an_array_have_them(project: Path) -> None:
    """Written once, for all of them."""
    jobs = submit_array(read_variables, ["TOKEN", "COLOUR"], cluster="local")
    assert jobs.results(PATIENCE_S) == [[SECRET], ["blue"]]
    outside = [file for file in files_with(SECRET, project / "runs") if "/private/" not in file]
    assert outside == []


def test_the_projects_file_is_taken_wherever_one_submits_from(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook in a folder of its own."""
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    (project / "notebooks").mkdir()
    monkeypatch.chdir(project / "notebooks")
    monkeypatch.setenv("PWD", str(project / "notebooks"))
    assert submit(read_variables, "COLOUR", cluster="inline").result() == ["blue"]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("  export A = spaced out  # comment", "spaced out"),
        ("A=a#b", "a#b"),
        ("A='single $HOME \\n # x'", "single $HOME \\n # x"),
        ('A="double \\"x\\" \\n$HOME"  # y', 'double "x" \n$HOME'),
        ("A=$(touch stray)`touch stray`;touch stray", "$(touch stray)`touch stray`;touch stray"),
        ("A=key==", "key=="),
        ('A=""', ""),
        ("A='one\ntwo'", "one\ntwo"),
        ("A=é漢", "é漢"),
    ],
)
def test_a_value_is_read_as_it_stands(line: str, value: str) -> None:
    """Nothing is executed or filled in; quotes are those of a shell."""
    assert parse_secrets(f"{line}\nB=1\n") == {"A": value, "B": "1"}


@pytest.mark.parametrize("text", ["just-a-token", "1A=x", "A B=x", "A='open\nB=1", "=x", "A='x' y"])
def test_a_line_that_is_none_is_refused_without_its_text(project: Path, text: str) -> None:
    """The line may be the secret itself."""
    (project / ".env").write_text(f"OK=1\n{text}\n")
    with pytest.raises(InvalidRequest, match=r"\.env:2 is no KEY=VALUE") as raised:
        submit(read_variables, cluster="inline")
    assert text not in str(raised.value)
