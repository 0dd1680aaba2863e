"""Time limits that pass while a test looks on: limits are whole minutes, and a start may take seconds or a minute."""

from pathlib import Path

import pytest

ENDS_IN = "export HELPERS_END_TIME=$(($(date +%s) + {}))"
"""A set-up line by which the time is over, or nearly, in so many seconds."""

_SUPERVISOR = """
import os
import sys

if "helpers.runtime.local.ranks" in sys.orig_argv:
    from helpers.runtime.current import Run

    left = Run.time_left
    Run.time_left = lambda run: left(run) if os.path.exists(f"{{run.folder}}/attempts/{{run.attempt}}/{mark}") else None
"""


def heed_time_from(mark: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let runs on this machine heed their time only once an attempt has this file: not while it still starts.

    Args:
        mark: In the attempt's folder. ``started-0`` is there when the function is called; a program makes its own.
        folder: For a module that Python loads at its start.
        patch: Undoes it.
    """
    (folder / "sitecustomize.py").write_text(_SUPERVISOR.format(mark=mark))
    patch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[3]}")
