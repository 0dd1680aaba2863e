"""A fake Slurm leaves nothing behind, however its test ends, and keeps to itself."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from helpers.testing import FakeSlurm
from tests.waiting import wait_for


def processes_of(folder: Path) -> list[int]:
    """Return the processes that have this fake's commands on their PATH."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.environ().get("SLURM_CONF", "") or str(folder) in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


STUBBORN = "trap '' TERM; setsid sleep 300 & srun bash -c 'trap \"\" TERM; touch ready; sleep 300' & sleep 300"


def test_stubborn_jobs_end_with_it(tmp_path: Path) -> None:
    """Those that ignore SIGTERM and leave their session, too."""
    with FakeSlurm() as slurm:
        folder = slurm.folder
        words = ["sbatch", "--parsable", "--output=/dev/null", f"--wrap={STUBBORN}"]
        subprocess.run(words, env=slurm.environment, check=True, capture_output=True, cwd=tmp_path)
        wait_for((tmp_path / "ready").exists)
        assert len(processes_of(folder)) >= 4
    assert (processes_of(folder), folder.exists()) == ([], False)


def test_what_a_job_leaves_behind_ends_with_the_job(tmp_path: Path) -> None:
    """As where Slurm tracks processes by their cgroup."""
    with FakeSlurm() as slurm:
        line = "setsid sleep 300 & echo $! > left; sleep 0.1"
        words = ["sbatch", "--wait", "--output=/dev/null", f"--wrap={line}"]
        subprocess.run(words, env=slurm.environment, check=True, capture_output=True, cwd=tmp_path)
        left = int((tmp_path / "left").read_text())
        wait_for(lambda: not psutil.pid_exists(left), "it ends")


TEST_FILE = """
    import os, subprocess, time

    def test_it(fake_slurm):
        with open({note!r}, "w") as file:
            file.write(f"{{fake_slurm.folder}}\\n")
        subprocess.run(["sbatch", "--output=/dev/null", "--wrap=sleep 300"], check=True, capture_output=True)
        fake_slurm.wait_for("1", "RUNNING")
        {ending}
"""


@pytest.mark.parametrize("ending", ["raise ValueError", "os.kill(os.getpid(), 9)"])
def test_nothing_is_left_when_the_test_fails_or_pytest_is_killed(tmp_path: Path, ending: str) -> None:
    """A CI machine that is used again must not fill up."""
    note = tmp_path / "note"
    (tmp_path / "test_it.py").write_text(textwrap.dedent(TEST_FILE).format(note=str(note), ending=ending))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    folder = Path(note.read_text().strip())
    assert done.returncode in {1, -signal.SIGKILL}, done.stdout
    wait_for(lambda: processes_of(folder) == [], "its processes end")
    wait_for(lambda: not folder.exists(), "its folder goes")


def test_two_at_a_time_do_not_meet(tmp_path: Path) -> None:
    """As in parallel workers of pytest."""
    with FakeSlurm() as one, FakeSlurm() as other:
        words = ["sbatch", "--parsable", "--output=/dev/null", "--wrap=true"]
        ids = [
            subprocess.run(words, env=slurm.environment, check=True, capture_output=True, text=True).stdout
            for slurm in (one, other)
        ]
        assert (ids, [len(slurm.jobs()) for slurm in (one, other)]) == (["1\n", "1\n"], [1, 1])


def test_a_controller_that_died_is_told(tmp_path: Path) -> None:
    """A fault of the fake must not look like one of the code under test."""
    slurm = FakeSlurm()
    slurm.start()
    folder = slurm.folder
    process = slurm._running._process
    assert process is not None
    process.kill()
    process.wait()
    with pytest.raises(RuntimeError, match="controller"):
        slurm.jobs()
    with pytest.raises(RuntimeError, match="had a fault"):
        slurm.stop()
    assert not folder.exists()


def test_importing_it_needs_no_pytest() -> None:
    """It serves outside tests, too; and pytest, which loads the plugin always, loads nothing else with it."""
    code = "import sys, helpers.testing; print({'pytest', 'torch', 'submitit', 'psutil'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
    code = "import sys, helpers.testing.plugin; print({'torch', 'submitit', 'subprocess'} & {*sys.modules} - {*before})"
    code = f"import sys, pytest; before = set(sys.modules); {code}"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_the_environment_is_restored(tmp_path: Path) -> None:
    """Outside the fixture no command is the fake's."""
    before = os.environ.get("SLURM_CONF")
    with FakeSlurm():
        assert os.environ.get("SLURM_CONF") == before
