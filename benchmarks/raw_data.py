"""What the commit guard costs where nothing has changed: 10,000 raw files, the command and its start included."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Figure, Row, interleave

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = 10_000
_ROUNDS = 7
_ALLOWED_S = 1.0
_GUARD = (sys.executable, "-m", "helpers.cli", "data", "guard")
_BARE_WALK = """
import os
for place, _, files in os.walk("data/raw"):
    for name in files:
        os.stat(f"{place}/{name}")
"""


def rows() -> Iterator[Row | Figure]:
    """Measure in a repository of its own, in which the raw files are ignored and the manifest is not."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        _make(project)
        run = functools.partial(_run, project)
        alternatives = {
            "guard": lambda: run(*_GUARD),
            "walk": lambda: run(sys.executable, "-c", _BARE_WALK),
        }
        times = interleave(alternatives, rounds=_ROUNDS)
    what = f"commit guard, {_FILES:,} raw files"
    shown = f"{times['guard']}, allowed {_ALLOWED_S:g} s"
    yield Figure(what=what, shown=shown, ratio=times["guard"].median / _ALLOWED_S, goal=1)
    yield Row(what=what, ours=times["guard"], other=times["walk"], than="a bare stat walk", goal=None)


def _make(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    (project / ".gitignore").write_text("/data/raw/*\n")
    for number in range(_FILES):
        file = project / "data" / "raw" / f"{number // 500:03}" / f"scan-{number:05}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(number.to_bytes(4, "little") * 64)
        os.utime(file, (1e9, 1e9))
    _run(project, "git", "init", "--quiet")
    _run(project, sys.executable, "-m", "helpers.cli", "data", "add", "data/raw")
    _run(project, "git", "add", "--all")
    _run(project, "git", "-c", "user.name=n", "-c", "user.email=e@x.org", "commit", "--quiet", "--message=raw data")


def _run(project: Path, *command: str) -> None:
    environment = {**os.environ, "PWD": str(project)}
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
