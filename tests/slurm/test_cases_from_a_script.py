"""A script that submits and ends; what is seen of its jobs the next day, from another process."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import DependencyFailed, attach
from tests.slurm.conftest import Command

PATIENCE_S = 120
SCRIPT = """\
from helpers import submit

class Point:
    def __init__(self, x):
        self.x = x

def make():
    return Point(3)

def inner():
    raise ValueError("boom-123")

def fail():
    print("before", flush=True)
    inner()

if __name__ == "__main__":
    failed = submit(fail)
    print(failed.id, submit(make, after=failed).id, submit(make).id)
"""


@pytest.fixture
def ids(client: Path) -> list[str]:
    """One that raises, one that waits for its success, and one that returns an object of the script's own class."""
    (client / "launch.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "launch.py"], cwd=client, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_script_is_gone_and_everything_is_known(ids: list[str], command: Command, client: Path) -> None:
    """Slurm said COMPLETED, the log was empty, the traceback was in a terminal that is closed."""
    raised, waiting, own_class = map(attach, ids)
    with pytest.raises(ValueError, match="boom-123"):
        raised.result(PATIENCE_S)
    with pytest.raises(DependencyFailed):
        waiting.result(PATIENCE_S)
    assert own_class.result(PATIENCE_S).x == 3
    shown = command("logs", raised.id).stdout
    assert "before\n" in shown
    assert f'File "{client}/launch.py", line 11, in inner' in shown
    assert shown.rstrip().endswith("ValueError: boom-123")
    by_slurm = ["scontrol", "--oneliner", "show", "job", raised.id]
    record = subprocess.run(by_slurm, capture_output=True, text=True, check=True).stdout
    assert "JobState=FAILED" in record
    assert "ExitCode=1:0" in record
    assert not (waiting.folder / "attempts").exists()
