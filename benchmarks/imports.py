"""What ``from helpers import submit`` costs a fresh interpreter."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from benchmarks.timing import Row, interleave

_ROUNDS = 15
_STATEMENTS = {"ours": "from helpers import submit", "submitit": "import submitit", "bare": "pass"}


def rows() -> list[Row]:
    """Measure the import against a bare interpreter and against submitit's."""
    times = interleave({name: functools.partial(_run, code) for name, code in _STATEMENTS.items()}, rounds=_ROUNDS)
    what = "from helpers import submit"
    return [
        Row(what=what, ours=times["ours"], other=times["submitit"], than="import submitit", goal=0.5),
        Row(what=what, ours=times["ours"], other=times["bare"], than="bare interpreter", goal=None),
    ]


def _run(code: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
