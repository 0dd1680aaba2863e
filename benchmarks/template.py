"""What a bake costs beside plain cookiecutter, and a look at fifty projects of a lab."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import Row, Times, interleave

_ROOT = Path(__file__).resolve().parents[1]
_PARTS = ("cookiecutter.json", "hooks", "template_extension.py", "{{cookiecutter.project_slug}}")
_ROUNDS = 7
_PROJECTS = 50
_FLEET_GOAL_S = 5.0


def rows() -> list[Row]:
    """Measure a bake with our hooks against one without, and a fleet of fifty projects against its goal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        template = _template(folder / "template")
        numbers = itertools.count()
        bakes = {word: functools.partial(_bake, template, folder, numbers, word) for word in ("yes", "no")}
        times = interleave(bakes, rounds=_ROUNDS)
        bake = Row(what="bake", ours=times["yes"], other=times["no"], than="cookiecutter, no hooks", goal=1.3)
        return [bake, _fleet(next(folder.glob("bake*/digits")), folder / "lab")]


def _template(folder: Path) -> Path:
    """Return the template in a repository of its own, as a user's clone has it."""
    folder.mkdir()
    for name in _PARTS:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    for command in (("init",), ("add", "--all"), ("commit", "--message", "template")):
        subprocess.run(["git", command[0], "--quiet", *command[1:]] if command[0] != "add" else ["git", *command],
                       cwd=folder, env=_environment(folder.parent), check=True)  # fmt: skip
    return folder


def _environment(home: Path) -> dict[str, str]:
    person = {
        f"GIT_{role}_{part}": "bench@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
    }
    path = os.environ["PATH"]  # without the tools of this environment: installing the checks is not the bake
    return {**os.environ, **person, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "PATH": path}


def _bake(template: Path, folder: Path, numbers: itertools.count[int], hooks: str) -> None:
    into = folder / f"bake{next(numbers)}-{hooks}"
    command = [Path(sys.executable).with_name("cookiecutter"), "--no-input", "--accept-hooks", hooks]
    subprocess.run(
        [*command, "--output-dir", into, template], env=_environment(folder), check=True, stdout=subprocess.DEVNULL
    )


def _fleet(project: Path, lab: Path) -> Row:
    """Time one look at fifty copies of a project; the other time is the goal itself."""
    for number in range(_PROJECTS):
        shutil.copytree(project, lab / f"project{number}", symlinks=True)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "helpers.cli", "fleet", lab], check=True, stdout=subprocess.DEVNULL)
    taken = Times((time.perf_counter() - begin,))
    return Row(what=f"fleet of {_PROJECTS}", ours=taken, other=Times((_FLEET_GOAL_S,)), than="its goal", goal=1.0)
