"""What the project brings for VS Code fits what it brings for the shell."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template

ROOT = Path(__file__).resolve().parents[2]


def settings(baked: Bake, name: str) -> Any:
    return json.loads((baked.project / ".vscode" / name).read_text())


def command(baked: Bake, label: str) -> str:
    (found,) = [task["command"] for task in settings(baked, "tasks.json")["tasks"] if task["label"] == label]
    return str(found)


def test_tasks_call_recipes_that_are_there(default_bake: Bake) -> None:
    recipes = set(re.findall(r"^(\w+):", (default_bake.project / "Makefile").read_text(), re.MULTILINE))
    lines = " ".join(task["command"] for task in settings(default_bake, "tasks.json")["tasks"])
    assert set(re.findall(r"make (\w+)", lines)) == {"train", "submit", "test"}
    assert {"train", "submit", "test"} <= recipes


def test_the_editor_attaches_where_the_job_listens(default_bake: Bake) -> None:
    (place,) = [one["connect"] for one in settings(default_bake, "launch.json")["configurations"] if "connect" in one]
    address = f"{place['host']}:{place['port']}"
    assert f"--listen {address} " in command(default_bake, "submit for the debugger")
    assert f" {place['port']}:{address} " in command(default_bake, "tunnel to the debugger")


def test_a_job_for_the_debugger_runs_the_files_that_the_editor_shows(bake: Baker, home: Home, tmp_path: Path) -> None:
    """A breakpoint in a file stops nothing in the copy of it that other jobs run."""
    baked = bake()
    stand_in = tmp_path / "debugpy" / "__main__.py"  # the real one: tests/slurm/test_debugger.py
    stand_in.parent.mkdir()
    stand_in.write_text("import digits\nprint(digits.__file__)\n")
    line = command(baked, "submit for the debugger").replace("${input:resources}", "--cluster local --wait")
    subprocess.run(
        ["sh", "-c", line],
        cwd=baked.project,
        env=home.environment(PYTHONPATH=f"{tmp_path}:{baked.project / 'src'}:{ROOT}"),
        check=True,
    )
    (log,) = baked.project.glob("runs/*/*/logs/0/0.out")
    assert log.read_text().splitlines() == [str(baked.project / "src" / "digits" / "__init__.py")]
