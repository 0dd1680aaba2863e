"""Describe the container that a job's processes run in: an image, and what of this machine is seen in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LIBRARY = "/opt/slurm-torch-helpers"
"""Where a container sees this library: the very files of the submission, since the two halves share a run folder."""

_SEPARATORS = ":,"  # of the engines' own notation


@dataclass(frozen=True, kw_only=True)
class Bind:
    """A folder or file of this machine that the container sees.

    Args:
        source: Its path here.
        target: Its path in the container.
        read_only: Whether nothing in the container can change it.
    """

    source: str
    target: str
    read_only: bool = False

    def text(self) -> str:
        """Return it as Apptainer and Pyxis write it: ``source:target:ro``."""
        return f"{self.source}:{self.target}" + (":ro" if self.read_only else "")


@dataclass(frozen=True, kw_only=True)
class Container:
    """What a job's processes run in.

    Args:
        engine: What runs it.
        image: A file, a folder, or an address such as ``docker://…``.
        python: The image's interpreter.
        binds: What is seen in it; a folder stands before what lies in it.
        directory: Where the processes start.
        gpus: Whether the job has GPUs.
        options: More options of the engine.
    """

    engine: Engine
    image: str
    python: str
    binds: Sequence[Bind]
    directory: str
    gpus: bool
    options: Sequence[str] = ()

    @property
    def inside(self) -> list[str]:
        """The words that start a program in it; none where ``srun`` itself does."""
        return self.engine.words(self)

    @property
    def srun_options(self) -> list[str]:
        """What ``srun`` is told."""
        return self.engine.srun_options(self)

    @property
    def start(self) -> list[str]:
        """The words that start the image's Python, which finds this library and no package of a home folder.

        ``env`` replaces itself by Python: it is Python that gets the job's signals.
        """
        settled = ("env", "-u", "PYTHONHOME", f"PYTHONPATH={LIBRARY}", "PYTHONNOUSERSITE=1")
        return [*self.inside, *settled, self.python]


class Engine(Protocol):
    """A program that runs containers.

    It must replace itself by the program in the container, or pass all signals on: Slurm signals only the process
    that it has started (``ProctrackType=cgroup``).
    """

    @property
    def name(self) -> str:
        """As the setting ``container_engine`` has it."""

    @property
    def program(self) -> str:
        """What is to be on PATH."""

    def words(self, container: Container) -> list[str]:
        """Return the words before the program."""

    def srun_options(self, container: Container) -> list[str]:
        """Return the options of ``srun``."""

    def check_image(self, image: str) -> None:
        """Refuse an image that is not there.

        Raises:
            InvalidRequest: Naming it.
        """

    def prepare(self, container: Container) -> None:
        """Do what has to be done once before the job can start.

        Raises:
            InvalidRequest: If it cannot be done.
        """


def in_order(binds: Iterable[Bind]) -> tuple[Bind, ...]:
    """Return the binds that are needed, a folder before what lies in it.

    One that a folder above brings along, under the same path, is left out; a read-only one never is.

    Raises:
        InvalidRequest: For a path that the engines' notation cannot hold.
    """
    kept: dict[str, Bind] = {}
    for bind in sorted(binds, key=lambda bind: (len(Path(bind.target).parts), bind.target)):
        check_notation(bind.source)
        above = [other for other in kept.values() if Path(other.target) in Path(bind.target).parents]
        covered = any(not other.read_only and other.source == other.target for other in above)
        if bind.read_only or not (covered and bind.source == bind.target):
            earlier = kept.get(bind.target)
            kept[bind.target] = earlier if earlier is not None and earlier.read_only else bind
    return tuple(kept.values())


def check_notation(path: str) -> None:
    """Refuse a path that cannot be written in an engine's notation.

    Raises:
        InvalidRequest: For a colon or a comma.
    """
    if any(character in path for character in _SEPARATORS):
        raise InvalidRequest(
            f"A container cannot be given {path!r}: its engine reads colons and commas as separators.",
            hint="rename the folder, or name another: HELPERS_RUNS=/path/to/runs",
        )
