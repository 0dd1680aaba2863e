"""Apptainer, and Singularity, which is the same under its older name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from helpers.submission.containers.container import Container

_NAMES = ("apptainer", "singularity")
_ADDRESSES = ("docker://", "library://", "oras://", "shub://", "docker-archive://")


class Apptainer:
    """``apptainer exec``: it passes signals on to the program in the container."""

    name = "apptainer"

    @property
    def program(self) -> str:
        """Whichever of the two names is on PATH; Apptainer's where neither is."""
        return next((name for name in _NAMES if shutil.which(name)), _NAMES[0])

    def words(self, container: Container) -> list[str]:
        """Return ``apptainer exec …``; ``--nv`` brings the driver's libraries along."""
        binds = [word for bind in container.binds for word in ("--bind", bind.text())]
        gpus = ["--nv"] if container.gpus else []
        return [self.program, "exec", *gpus, *binds, "--pwd", container.directory, *container.options, container.image]

    def srun_options(self, container: Container) -> list[str]:  # noqa: ARG002 -- whatever it is
        """Return none: the engine is a program."""
        return []

    def check_image(self, image: str) -> None:
        """Refuse a file that is not there; an address is looked up by the engine.

        Raises:
            InvalidRequest: Naming the file.
        """
        if not image.startswith(_ADDRESSES) and not Path(image).exists():
            raise InvalidRequest(
                f"There is no image {image}.", hint=f"{self.program} build {image} container.def  # or its path"
            )

    def prepare(self, container: Container) -> None:
        """Do nothing: it makes the folders that binds need."""
