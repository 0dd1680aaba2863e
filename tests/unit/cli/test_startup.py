"""The command answers at once."""

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "submitit",
    "rich",
    "numpy",
    "cloudpickle",
    "psutil",
    "asyncio",
    "helpers.submission",
    "helpers.runtime",
)
ASK = """
import sys
from helpers.cli.main import app
try:
    app(sys.argv[1:])
finally:
    print("LOADED", *[name for name in {heavy} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        *([name, "--help"] for name in ("submit", "status", "show", "logs", "cancel", "rerun", "resume")),
        *([name, "--help"] for name in ("shell", "notebook", "gpus", "gc", "data", "storage", "archive")),
    ],
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    """A login node with a slow file system takes seconds for torch; help has to be there before that."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(heavy=HEAVY), *words], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stderr.splitlines()[-1].split() == ["LOADED"]
    assert done.stdout


def test_version_is_the_librarys() -> None:
    """A report of a fault begins with it."""
    from helpers import __version__

    done = subprocess.run(
        [sys.executable, "-m", "helpers.cli", "--version"], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout == f"helpers {__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["submit", "--help"], ["logs", "--help"]])
def test_exit_codes_are_documented(words: list[str]) -> None:
    """Who scripts the command looks for them in its help."""
    done = subprocess.run(
        [sys.executable, "-m", "helpers.cli", *words], capture_output=True, text=True, check=True, timeout=200
    )
    assert "  3    Slurm refused the job\n" in done.stdout
    assert "  130  Ctrl-C; a job that was queued goes on\n" in done.stdout
