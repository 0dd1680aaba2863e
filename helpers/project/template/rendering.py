"""Make a project from a template and answers that are known, as cookiecutter does.

It runs in a process of its own: cookiecutter imports a template's extension by its name, and would give the new
template the old one's. cookiecutter is an optional dependency, the extra ``template``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


def require_cookiecutter() -> None:
    """Refuse what needs cookiecutter where it is not installed.

    Raises:
        InvalidRequest: With the line that installs it.
    """
    if importlib.util.find_spec("cookiecutter") is None:
        raise InvalidRequest(
            f"This needs cookiecutter, which is not installed in {sys.prefix}.",
            hint="python -m pip install 'cookiecutter>=2.6'",
        )


def start_rendering(template: Path, answers: Mapping[str, str], into: Path, *, source: str) -> subprocess.Popen[str]:
    """Start to make a project in the empty folder ``into``; several may be made at once.

    Args:
        template: A checkout of the template.
        answers: What a user would have typed; questions without one get the template's own default.
        into: Where the project's folder comes to stand.
        source: Where the template came from, by its own word.
    """
    into.mkdir(parents=True)
    order = {"template": str(template), "answers": dict(answers), "into": str(into), "source": source}
    command = [sys.executable, "-P", "-m", "helpers.project.template.rendering", json.dumps(order)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish_rendering(process: subprocess.Popen[str], into: Path) -> Path:
    """Return the project's folder.

    Raises:
        InvalidRequest: With cookiecutter's words, if it made none.
    """
    said, _ = process.communicate()
    if process.returncode:
        last = next(reversed(said.strip().splitlines()), f"exit code {process.returncode}")
        raise InvalidRequest(f"The template cannot be rendered with this project's answers: {last}")
    (project,) = into.iterdir()
    return project


def _render(order: Mapping[str, Any]) -> None:
    """Do what ``cookiecutter`` does once the questions are answered; nobody's own defaults count.

    ``_commit`` tells the hook that this is no project to put under git, as cruft does.
    """
    from cookiecutter.generate import generate_context, generate_files
    from cookiecutter.prompt import prompt_for_config

    template = Path(order["template"])
    context = generate_context(context_file=str(template / "cookiecutter.json"), extra_context=order["answers"])
    sys.path.insert(0, str(template))  # for the template's extension
    os.chdir(template)
    context["cookiecutter"] = prompt_for_config(context, no_input=True)
    context["cookiecutter"].update(_template=order["source"], _commit="")
    generate_files(repo_dir=str(template), context=context, output_dir=order["into"])


if __name__ == "__main__":
    _render(json.loads(sys.argv[1]))
