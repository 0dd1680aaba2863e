"""A job whose interpreter is gone, or is another one, says so although no Python of ours can run."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import EnvironmentMismatch, submit
from helpers.runtime.run.description import read_description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, Status, read_ledger, read_status, write_status
from helpers.submission.clusters.script import local_script
from helpers.submission.jobs.endings import exception_of
from helpers.submission.surroundings import Surroundings
from tests.unit.submission import functions


@pytest.fixture
def run(project: Path) -> RunFolder:
    """A run that has not started."""
    run = RunFolder(project / "runs" / 'it\'s "a" run' / "1")
    run.create()
    return run


def start(run: RunFolder, python: Path) -> subprocess.CompletedProcess[str]:
    run.script.write_text(local_script(run, surroundings=Surroundings(python=str(python)), setup=()))
    return subprocess.run(["bash", run.script], capture_output=True, text=True, check=False)


def fake_python(folder: Path, *, version: str, imports: bool = True) -> Path:
    """An interpreter of another version, which does not find this library."""
    python = folder / 'a "quoted" python'
    python.write_text(f'#!/bin/sh\ncase "$*" in *version_info*) echo {version};; *) exit {1 - imports};; esac\n')
    python.chmod(0o755)
    return python


def detail(run: RunFolder) -> str:
    status = read_status(run)
    assert status is not None
    assert status.ending is not None
    assert (status.state, status.ending.cause, status.job_id[:6]) == (State.FAILED, "environment", "local-")
    return status.ending.detail


def test_a_missing_interpreter_is_named(run: RunFolder, project: Path) -> None:
    """C44: an environment that was deleted while the job waited; a bare exit code 127 says nothing."""
    python = project / 'the "old" env' / "bin" / "python"
    done = start(run, python)
    assert (detail(run), done.returncode) == (f"{python}, the interpreter of this job, does not exist there", 127)


def test_an_interpreter_of_another_minor_version_is_named_with_both(run: RunFolder, project: Path) -> None:
    """C44: ``python3`` was upgraded; its packages and our pickles are the old one's."""
    python = fake_python(project, version="3.99", imports=False)
    start(run, python)
    then = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert detail(run) == f"{python} was Python {then} when this was submitted, and is Python 3.99 there"


def test_an_interpreter_that_has_lost_this_library_is_named(run: RunFolder, project: Path) -> None:
    """The environment was made anew, without it."""
    python = fake_python(project, version=f"{sys.version_info.major}.{sys.version_info.minor}", imports=False)
    start(run, python)
    assert detail(run) == f"{python} cannot import helpers there"


def test_the_ledger_has_it_too(run: RunFolder, project: Path) -> None:
    """It tells why each attempt ended."""
    start(run, project / "gone")
    assert [(line["event"], line["cause"]) for line in read_ledger(run)] == [("end", "environment")]


def test_a_run_that_has_succeeded_stays_so(run: RunFolder, project: Path) -> None:
    """Requeued by hand, long after its environment was removed."""
    write_status(run, Status(state=State.COMPLETED, job_id="7", attempt=0))
    start(run, project / "gone")
    status = read_status(run)
    assert status is not None
    assert status.state is State.COMPLETED


def test_an_attempt_that_cannot_begin_for_another_reason_is_not_blamed_on_python(project: Path) -> None:
    """A run folder that was removed, or a full disk: Python itself says what."""
    job = submit(functions.add, 1, cluster="local")
    job.result(240)
    run = RunFolder(job.folder)
    run.description.write_text("no json")
    done = subprocess.run(["bash", run.script], capture_output=True, text=True, check=False)
    assert ("JSONDecodeError" in done.stderr, done.returncode) == (True, 1)


def test_another_version_that_does_find_this_library_is_refused_too(project: Path) -> None:
    """By Python itself: what was pickled by one minor version may do anything in another."""
    job = submit(functions.add, 1, cluster="local")
    job.result(240)
    run = RunFolder(job.folder)
    run.status.unlink()
    shutil.rmtree(run.path / "attempts")
    record = json.loads(run.description.read_text())
    run.description.write_text(json.dumps({**record, "versions": {"python": "3.99.1"}}))
    subprocess.run(["bash", run.script], capture_output=True, check=False)
    assert "was Python 3.99.1 when this was submitted, and is Python" in detail(run)


def test_the_caller_gets_an_error_with_the_way_out(project: Path) -> None:
    """Of a class of its own."""
    job = submit(functions.add, 1, cluster="local")
    job.result(240)
    run = RunFolder(job.folder)
    run.status.unlink()
    run.script.write_text(run.script.read_text().replace(sys.executable, str(project / "gone")))
    subprocess.run(["bash", run.script], capture_output=True, check=False)
    status = read_status(run)
    assert status is not None
    error = exception_of(run, read_description(run), status)
    assert isinstance(error, EnvironmentMismatch)
    assert f"{project}/gone, the interpreter of this job, does not exist there" in str(error)
