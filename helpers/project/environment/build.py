"""Build a conda environment as a job, on a node like those that it is to run on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.project.environment.generated import CONDA_FILE
from helpers.project.environment.sync import differences

if TYPE_CHECKING:
    from pathlib import Path

    from helpers import Job

_BUILD = """set -eu
for program in micromamba mamba conda; do command -v "$program" >/dev/null && break; done
command -v "$program" >/dev/null || { echo "no conda, mamba or micromamba on PATH" >&2; exit 127; }
case "$1" in "") nvidia-smi --list-gpus ;; *) export CONDA_OVERRIDE_CUDA="$1" ;; esac
case "$program" in
micromamba) micromamba create --yes --prefix "$2" --file "$3" ;;
*) "$program" env create --prefix "$2" --file "$3" ;;
esac
"$2/bin/python" -m pip install --no-deps --editable "$4"
"$5" -m helpers.cli env check --prefix "$2" >&2
"""


def build(project: Path, folder: Path, *, on_gpu: bool, cuda: str, **keywords: Any) -> Job[int]:
    """Submit the job that makes the environment in ``folder``, from ``environment.yml``.

    It fails where pip has replaced what conda installed: bounds in the list that do not fit together.

    Args:
        project: The project's folder.
        folder: Where the environment is made; a path that is no whole one counts from the project.
        on_gpu: Whether it is built where a GPU is seen; without, conda is told which CUDA to build for.
        cuda: That CUDA, such as ``"12.6"``.
        **keywords: Of ``submit_command``.

    Returns:
        The job; with ``dry_run=True`` what would be submitted.

    Raises:
        InvalidRequest: If the files are not as ``pyproject.toml`` says, or the folder is there already.
    """
    from helpers.submission.command import submit_command

    if differences(project):
        raise InvalidRequest("The environment files are not as pyproject.toml says.", hint="helpers env sync")
    target = project / folder
    if target.exists():
        raise InvalidRequest(
            f"{target} is there already; an environment is made anew, never changed under its jobs.",
            hint=f"rm -r {target}; or: helpers env build --folder .conda-2",
        )
    override = "" if on_gpu else cuda
    command = [
        "sh",
        "-c",
        _BUILD,
        "build",
        override,
        str(target),
        str(project / CONDA_FILE),
        str(project),
        sys.executable,
    ]
    return submit_command(command, name="env-build", gpus=1 if on_gpu else 0, **keywords)
