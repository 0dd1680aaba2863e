"""Name the raw data of a project: ``data/raw`` with its manifest, and data elsewhere that a manifest refers to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from helpers.errors import InvalidRequest
from helpers.runtime.raw_data.manifest import SUFFIX, Manifest, escape, read_manifest

RAW = "raw"
DATA_SETTING = "{storage.data}"
"""How the root of a reference begins that lies below the folder of data that the settings name."""

CACHE = ".helpers-cache"


@dataclass(frozen=True, kw_only=True)
class Area:
    """Raw data under one manifest.

    Args:
        name: ``"raw"``, or that of the reference.
        project: The project's folder.
        file: The manifest.
        root: The folder of the files.
        manifest: What is declared.
    """

    name: str
    project: Path
    file: Path
    root: Path
    manifest: Manifest

    @property
    def is_reference(self) -> bool:
        """Whether the data is kept elsewhere, by somebody else: it is looked at and never touched."""
        return self.name != RAW

    @property
    def times(self) -> Path:
        """The untracked file that remembers which size and time each file had when it was last read."""
        return self.project / CACHE / f"{self.name}.times.json"

    def shown(self, path: str) -> str:
        """Return how a file is named for people: from the project where it lies in it, on one line."""
        return escape(str(self.root / path) if self.is_reference else f"data/{RAW}/{path}")


def raw_area(project: Path) -> Area:
    """Return the project's own raw data, whether there is any yet or not.

    Raises:
        InvalidRequest: If its manifest cannot be read.
    """
    file = manifest_file(project, RAW)
    return Area(name=RAW, project=project, file=file, root=project / "data" / RAW, manifest=read_manifest(file))


def references(project: Path, data: Path | None) -> list[Area]:
    """Return the raw data that lies elsewhere, by name.

    Args:
        project: The project's folder.
        data: The folder that ``[storage] data`` names; None where no setting does.

    Raises:
        InvalidRequest: If a manifest cannot be read, says not where its data is, or needs a setting that is not set.
    """
    files = sorted((project / "data").glob(f"*{SUFFIX}"))
    return [_reference(project, file, data) for file in files if file.stem != RAW]


def all_areas(project: Path, data: Path | None) -> list[Area]:
    """Return all raw data of a project that is declared, or lies where it would be.

    Raises:
        InvalidRequest: See :func:`references`.
    """
    own = raw_area(project)
    return [*([own] if own.manifest.digest or own.root.is_dir() else []), *references(project, data)]


def raw_folders(project: Path, data: Path | None = None) -> list[Path]:
    """Return the folders of raw data that are there, links resolved: what a container mounts read-only.

    Raises:
        InvalidRequest: See :func:`references`.
    """
    return [area.root.resolve() for area in all_areas(project, data) if area.root.is_dir()]


def manifest_file(project: Path, name: str) -> Path:
    """Return the manifest of an area."""
    return project / "data" / f"{name}{SUFFIX}"


def _reference(project: Path, file: Path, data: Path | None) -> Area:
    manifest = read_manifest(file)
    if not manifest.root:
        raise InvalidRequest(
            f"{file} does not say where its data is: a line '# root: /a/folder' is missing.",
            hint="helpers data add --reference /a/folder --name NAME",
        )
    root = manifest.root
    if root.startswith(DATA_SETTING):
        if data is None:
            raise InvalidRequest(
                f"{file}: the data is in {root}, and no setting says where storage.data is here.",
                hint="export HELPERS_DATA=/a/folder",
            )
        root = f"{data}{root.removeprefix(DATA_SETTING)}"
    return Area(name=file.stem, project=project, file=file, root=Path(root), manifest=manifest)
