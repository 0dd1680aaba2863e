"""Charliecloud: ``ch-run`` in a folder that is a root file system, or in a SquashFS file."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from helpers.submission.containers.container import Container

_SYSTEM = ("dev", "proc", "sys")
_ALWAYS_THERE = ("/tmp", "/dev", "/proc", "/sys")  # noqa: S108 -- ch-run brings the machine's own along
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_READ_ONLY = (
    'while [ "$1" != -- ]; do mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 125; shift; done; '
    'shift; exec "$@"'
)
"""ch-run has no read-only binds, so they are made before it, in a name space of the job's own."""


class Charliecloud:
    """``ch-run``: it replaces itself by the program in the container."""

    name = "charliecloud"
    program = "ch-run"

    def words(self, container: Container) -> list[str]:
        """Return ``ch-run …``, in a name space where the read-only folders are read-only; each replaces itself.

        The machine's PATH and LD_LIBRARY_PATH lead nowhere in the image, so they stay outside.
        """
        binds = [f"--bind={bind.source}:{bind.target}" for bind in container.binds]
        own = Path(container.image) / "ch" / "environment"
        path = "--set-env" if own.is_file() else f"--set-env=PATH={_PATH}"
        settled = [f"--uid={os.getuid()}", f"--gid={os.getgid()}", f"--cd={container.directory}", path]
        if not any(Path.home().is_relative_to(bind.target) for bind in container.binds):
            settled.append("--set-env=HOME=/tmp")  # the machine's is not in the image
        sources = [bind.source for bind in container.binds if bind.read_only]
        before = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _READ_ONLY, "sh", *sources, "--"]
        words = [*before, "ch-run", *settled, "--unset-env=LD_LIBRARY_PATH", *binds, *container.options]
        return ["env", f"USER={getpass.getuser()}", *words, container.image, "--"]

    def srun_options(self, container: Container) -> list[str]:  # noqa: ARG002 -- whatever it is
        """Return none: the engine is a program."""
        return []

    def check_image(self, image: str) -> None:
        """Refuse what is neither a root file system nor a file.

        Raises:
            InvalidRequest: Naming it.
        """
        path = Path(image)
        if "://" in image or "#" in image:
            raise InvalidRequest(
                f"Charliecloud runs a folder or a SquashFS file; got {image!r}.",
                hint=f"ch-image pull {image.rpartition('://')[2]} base && ch-convert base image, then: image",
            )
        if not path.exists():
            raise InvalidRequest(
                f"There is no image {image}.", hint=f"ch-convert IMAGE.tar.gz {image}  # or the path of one"
            )
        missing = [name for name in _SYSTEM if not (path / name).is_dir()] if path.is_dir() else []
        if missing:
            raise InvalidRequest(
                f"{image} is no image of Charliecloud: it has no /{missing[0]}.",
                hint=f"a folder made by ch-convert; or: mkdir {' '.join(f'{image}/{name}' for name in missing)}",
            )

    def prepare(self, container: Container) -> None:
        """Make the empty folders in the image that binds need; ch-run cannot, the image being read-only to it.

        Raises:
            InvalidRequest: If the image is not the caller's to add to.
        """
        image = Path(container.image)
        if not image.is_dir():
            return
        for bind in container.binds:
            if bind.target.startswith(tuple(f"{place}/" for place in _ALWAYS_THERE)):
                continue
            try:
                _make_mount_point(image, bind.target, is_folder=Path(bind.source).is_dir())
            except OSError as error:
                raise InvalidRequest(
                    f"The image {image} has no {bind.target}, where the job's folder is to appear, and cannot get "
                    f"one: {error.strerror}.",
                    hint=f"its owner can make it: mkdir -p {image}{bind.target}",
                ) from error


def _make_mount_point(image: Path, target: str, *, is_folder: bool) -> None:
    """Make one; what leads out of the image by a link is left to ch-run to judge."""
    place = image
    *folders, last = Path(target).parts[1:]
    for part in folders:
        place /= part
        if place.is_symlink():
            return
        place.mkdir(exist_ok=True)
    place /= last
    if is_folder:
        place.mkdir(exist_ok=True)
    elif not place.exists():
        place.touch()
