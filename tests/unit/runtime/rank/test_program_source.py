"""A program runs the project's code as it was submitted; what it reads and writes stays where it was."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import submit_command
from helpers.runtime.rank.command import Command
from helpers.runtime.rank.program_source import command_as_submitted
from helpers.runtime.run.description import Description
from helpers.submission.clusters.local import LocalCluster
from helpers.submission.plan import make_plan
from helpers.submission.preparation import with_source
from helpers.submission.resources.settings import complete_settings

PATIENCE_S = 240
FILES = {
    "pyproject.toml": "[tool.helpers]\n",
    ".gitignore": "/runs/\n",
    "fit.R": "cat('old')\n",
    "config.yaml": "lr: 1\n",
    "train.py": "import words\nprint(words.TEXT)\nopen('out.txt', 'w').write(words.TEXT)\n",
    "words.py": "TEXT = 'old'\n",
    "src/digits/__init__.py": "",
    "run.sh": "#!/bin/sh\necho old\n",
    "no-suffix": "#!/bin/sh\necho old\n",
}


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in git, which is the working folder."""
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ("run.sh", "no-suffix"):
        (folder / name).chmod(0o755)
    subprocess.run(["git", "init", "-q", folder], check=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    monkeypatch.setenv("PYTHONPATH", "")  # what is set from here on is taken back
    monkeypatch.delenv("PYTHONPATH")
    return folder


@pytest.fixture
def submitted(code: Path) -> Description:
    """What a submission from the project notes, with its snapshot."""
    plan = make_plan(Command(["true"]), [((), {})], cluster=LocalCluster(), complete=complete_settings({}))
    assert code.is_dir()
    return with_source(plan).description


def as_submitted(description: Description, *words: str) -> list[str]:
    """Return the words, with ``SNAPSHOT`` where the snapshot's folder stands."""
    snapshot = description.source["snapshot"]
    return [word.replace(snapshot, "SNAPSHOT") for word in command_as_submitted(replace(description, command=words))]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Rscript", "fit.R", "--trees", "5"], ["Rscript", "SNAPSHOT/fit.R", "--trees", "5"]),
        (["./run.sh", "fit.R"], ["SNAPSHOT/run.sh", "SNAPSHOT/fit.R"]),
        (["bash", "no-suffix"], ["bash", "SNAPSHOT/no-suffix"]),
        (["python", "-u", "./train.py", "config.yaml"], ["python", "-u", "SNAPSHOT/train.py", "config.yaml"]),
        (["run.sh"], ["run.sh"]),
        (["python", "absent.py", "src", "/usr/bin/env"], ["python", "absent.py", "src", "/usr/bin/env"]),
    ],
)
def test_a_word_that_names_code_of_the_project_leads_to_the_snapshot(
    submitted: Description, words: list[str], expected: list[str]
) -> None:
    """A file of data or configuration may be written to, and the first word without a slash is found on PATH."""
    assert as_submitted(submitted, *words) == expected


def test_a_module_in_the_working_folder_is_the_snapshots(
    submitted: Description, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python -m`` looks into the working folder first; there the file may have been edited."""
    assert as_submitted(submitted, sys.executable, "-m", "words") == [sys.executable, "-P", "-m", "words"]
    first = os.environ["PYTHONPATH"].partition(os.pathsep)[0]
    assert first == submitted.source["snapshot"]
    assert as_submitted(submitted, sys.executable, "-m", "timeit") == [sys.executable, "-m", "timeit"]
    assert as_submitted(submitted, "another-python3", "-m", "words") == ["another-python3", "-m", "words"]


def test_outside_a_project_the_words_stay(submitted: Description) -> None:
    """There is nothing that they could lead to."""
    assert command_as_submitted(replace(submitted, source={}, command=["python", "train.py"])) == ["python", "train.py"]


def test_an_edit_made_while_a_program_waits_does_not_reach_it(code: Path) -> None:
    """The module beside the script too; and what it writes lies in the user's folder."""
    edit = "sed -i s/old/new/ train.py words.py"
    job = submit_command([sys.executable, "train.py"], cluster="local", setup=[f"cd {code} && {edit}"])
    assert job.result(PATIENCE_S) == 0
    assert (code / "words.py").read_text() == "TEXT = 'new'\n"
    assert ((code / "out.txt").read_text(), job.logs(rank=0).splitlines()[-1]) == ("old", "old")
    assert job.description.command == [sys.executable, "train.py"]


def test_the_caller_may_want_the_code_as_it_is(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same setting as for functions."""
    monkeypatch.setenv("HELPERS_SNAPSHOT", "0")
    job = submit_command([sys.executable, "train.py"], cluster="local", setup=[f"sed -i s/old/new/ {code}/words.py"])
    assert job.result(PATIENCE_S) == 0
    assert (code / "out.txt").read_text() == "new"


def test_a_program_that_writes_beside_its_own_file_is_told(code: Path) -> None:
    """``cd $(dirname $0)`` leads into the snapshot, where nobody looks."""
    (code / "run.sh").write_text('#!/bin/sh\ncd "$(dirname "$0")" && mkdir made\n')
    job = submit_command(["./run.sh"], cluster="local")
    assert job.result(PATIENCE_S) == 0
    assert "written into the snapshot of the code, not into the project: made" in job.logs(rank=0)
