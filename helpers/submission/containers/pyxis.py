"""Pyxis: NVIDIA's plug-in for ``srun``, which runs containers of enroot."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from helpers.submission.containers.container import Container

_TIMEOUT_S = 60


class Pyxis:
    """``srun --container-image``: Slurm starts the program in the container by itself."""

    name = "pyxis"
    program = "srun"

    def words(self, container: Container) -> list[str]:  # noqa: ARG002 -- whatever it is
        """Return none: ``srun`` does it."""
        return []

    def srun_options(self, container: Container) -> list[str]:
        """Return the plug-in's options; an entry point of the image would stand between Slurm and Python."""
        return [
            f"--container-image={container.image}",
            f"--container-mounts={','.join(bind.text() for bind in container.binds)}",
            f"--container-workdir={container.directory}",
            "--no-container-entrypoint",
            *container.options,
        ]

    def check_image(self, image: str) -> None:
        """Refuse a file that is not there, and a Slurm without the plug-in; a registry's images are pulled by the job.

        Raises:
            InvalidRequest: Naming what is missing.
        """
        if not is_configured():
            raise InvalidRequest(
                f"{image} is to be run by Pyxis, which this cluster's Slurm does not have: "
                "srun --help has no --container-image.",
                hint='an image file for Apptainer: container="image.sif"',
            )
        if image.startswith(("/", ".")) and not Path(image).exists():
            raise InvalidRequest(f"There is no image {image}.", hint=f"enroot import -o {image} docker://…")

    def prepare(self, container: Container) -> None:
        """Do nothing: it makes the folders that mounts need."""


def is_configured() -> bool:
    """Say whether ``srun`` has the plug-in's options, by its own help."""
    return _is_configured(path=os.environ.get("PATH"), slurm_conf=os.environ.get("SLURM_CONF"))


@functools.lru_cache(maxsize=8)
def _is_configured(*, path: str | None, slurm_conf: str | None) -> bool:  # noqa: ARG001 -- what the answer depends on
    try:
        done = subprocess.run(["srun", "--help"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--container-image" in done.stdout
