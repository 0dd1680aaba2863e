"""A job runs the code, and the interpreter, that it was submitted with."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from helpers import EnvironmentMismatch, attach
from tests.waiting import wait_for

PATIENCE_S = 120
ROOT = Path(__file__).parents[2]


@pytest.fixture
def code(slurm_env: dict[str, str], tmp_path: Path) -> Path:
    """A project in git whose function waits in its first attempt, and imports late."""
    assert slurm_env
    folder = tmp_path / "project"
    (folder / "src" / "late").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.helpers]\n")
    (folder / ".gitignore").write_text("runs/\n__pycache__/\n")
    (folder / "src/late/__init__.py").touch()
    (folder / "src/late/value.py").write_text("VALUE = 'old'\n")
    (folder / "src/late/train.py").write_text(
        textwrap.dedent("""\
        import time
        from helpers import current_run

        def train(attempts=1):
            run = current_run()
            if run.attempt + 1 < attempts:
                time.sleep(600)
            from late.value import VALUE
            return VALUE, run.attempt
        """)
    )
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


LAUNCH = """\
import sys
sys.path.insert(0, "src")
from late.train import train
from helpers import submit
if __name__ == "__main__":
    print(submit(train, {arguments}slurm={{"hold": True}}, requeue=True).folder)
"""


def launch(folder: Path, text: str, *, python: Path | str = sys.executable, **variables: str) -> Path:
    """Submit from a process of its own, and return the run's folder."""
    (folder / "launch.py").write_text(text)
    environment = {**os.environ, "PWD": str(folder), **variables}
    command = [str(python), "launch.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def scontrol(*words: str) -> None:
    subprocess.run(["scontrol", *words], check=True, capture_output=True)


def test_an_edit_made_while_the_job_waits_reaches_no_attempt(code: Path) -> None:
    """The file is edited before the first attempt, and once more before the second."""
    job = attach(launch(code, LAUNCH.format(arguments="2, ")))
    (code / "src/late/value.py").write_text("VALUE = 'new'\n")
    scontrol("release", job.id)
    wait_for((job.folder / "attempts/0/started-0").exists, within_s=PATIENCE_S)
    (code / "src/late/value.py").write_text("VALUE = 'newest'\n")
    scontrol("requeue", job.id)
    assert job.result(PATIENCE_S) == ("old", 1)


def test_without_a_snapshot_the_job_says_that_the_code_has_changed(code: Path) -> None:
    """It runs what it finds; its figures belong to another commit than the one it was submitted at."""
    git = ["git", "-C", str(code), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "begin"], check=True)
    job = attach(launch(code, LAUNCH.format(arguments=""), HELPERS_SNAPSHOT="0"))
    (code / "src/late/value.py").write_text("VALUE = 'new'\n")
    scontrol("release", job.id)
    assert job.result(PATIENCE_S) == ("new", 0)
    assert "has changed since this was submitted" in (job.folder / "logs/batch.log").read_text()


def make_environment(folder: Path, *, version: int) -> Path:
    """Make a virtual environment with this one's packages and a package of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "demo_pkg").mkdir()
    (packages / "demo_pkg/__init__.py").write_text(f"__version__ = {version}\n")
    ours = [entry for entry in sys.path if entry.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({entry!r})" for entry in ours] + [str(ROOT)]
    (packages / "base.pth").write_text("\n".join(lines) + "\n")
    return folder / "bin" / "python"


PACKAGE = """\
from helpers import submit

def look():
    import sys, demo_pkg
    return sys.executable, demo_pkg.__version__, demo_pkg.__file__

if __name__ == "__main__":
    print(submit(look, slurm={"hold": True}, SETUP).folder)
"""


@pytest.mark.parametrize("export", ["ALL", "NONE"])
def test_the_job_runs_the_environment_that_it_was_submitted_from(code: Path, tmp_path: Path, export: str) -> None:
    """C44: called by its path, while PATH leads to another; and where the site exports nothing."""
    first = make_environment(tmp_path / "a", version=1)
    second = make_environment(tmp_path / "b", version=2)
    path = f"{first.parent}:{os.environ['PATH']}"
    folder = launch(code, PACKAGE.replace("SETUP", ""), python=second, PATH=path, SBATCH_EXPORT=export)
    job = attach(folder)
    scontrol("release", job.id)
    assert job.result(PATIENCE_S)[:2] == (str(second), 2)


@pytest.mark.parametrize("where", ["at submission", "in the job"])
def test_a_shadowing_search_path_is_the_callers_or_is_said(code: Path, tmp_path: Path, where: str) -> None:
    """C44: PYTHONPATH holds version 0. The caller saw it, and so does the job; or the caller did not."""
    python = make_environment(tmp_path / "b", version=2)
    shadow = tmp_path / "shadow"
    (shadow / "demo_pkg").mkdir(parents=True)
    (shadow / "demo_pkg/__init__.py").write_text("__version__ = 0\n")
    if where == "at submission":
        folder = launch(code, PACKAGE.replace("SETUP", ""), python=python, PYTHONPATH=str(shadow))
    else:
        folder = launch(code, PACKAGE.replace("SETUP", f"setup='export PYTHONPATH={shadow}'"), python=python)
    job = attach(folder)
    scontrol("release", job.id)
    version = job.result(PATIENCE_S)[1]
    said = "which was not on the caller's path" in job.logs()
    assert (version, said) == {"at submission": (0, False), "in the job": (2, True)}[where]


@pytest.mark.parametrize("how", ["deleted", "upgraded"])
def test_an_interpreter_that_has_changed_while_the_job_waited_is_named(code: Path, tmp_path: Path, how: str) -> None:
    """C44: "exit code 127", or an unpickling error, is what users got."""
    python = make_environment(tmp_path / "b", version=2)
    job = attach(launch(code, PACKAGE.replace("SETUP", ""), python=python))
    python.unlink()
    if how == "upgraded":
        python.write_text('#!/bin/sh\ncase "$*" in *version_info*) echo 3.99;; *) exit 1;; esac\n')
        python.chmod(0o755)
    scontrol("release", job.id)
    error = job.exception(PATIENCE_S)
    assert isinstance(error, EnvironmentMismatch)
    words = {
        "deleted": f"{python}, the interpreter of this job, does not exist there",
        "upgraded": "is Python 3.99 there",
    }
    assert words[how] in str(error)


def test_a_project_in_editable_mode_runs_from_its_snapshot(code: Path, tmp_path: Path) -> None:
    """How a generated project is installed: no search path of the caller's own leads to it."""
    python = make_environment(tmp_path / "b", version=2)
    packages = next((tmp_path / "b").glob("lib/python*/site-packages"))
    (packages / "__editable__.late.pth").write_text(f"{code}/src\n")
    job = attach(launch(code, LAUNCH.format(arguments="").replace('sys.path.insert(0, "src")', ""), python=python))
    shutil.rmtree(code / "src")
    scontrol("release", job.id)
    assert job.result(PATIENCE_S) == ("old", 0)
