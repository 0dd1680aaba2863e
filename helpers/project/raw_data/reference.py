"""Declare data that lies elsewhere and is somebody else's: it is read, and neither copied nor changed in any way."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.raw_data.adding import Added, record
from helpers.runtime.raw_data.area import DATA_SETTING, RAW, Area, manifest_file
from helpers.runtime.raw_data.check import read_files
from helpers.runtime.raw_data.manifest import Entry, read_manifest
from helpers.runtime.raw_data.walk import need_not_be_declared, walk

if TYPE_CHECKING:
    from helpers.runtime.raw_data.times import Seen

MOST_FILES = 200_000
"""More make a manifest that git should not carry, and a check that takes minutes."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def add_reference(
    project: Path,
    folder: Path,
    *,
    name: str | None = None,
    data: Path | None = None,
    checksums: bool = True,
    replace_declared: bool = False,
) -> Added:
    """Write the manifest of a folder elsewhere, ``data/<name>.manifest``.

    Args:
        project: The project's folder.
        folder: Where the data is.
        name: Of the reference; None for the folder's own.
        data: The folder that ``[storage] data`` names: what lies below it is found there on each cluster.
        checksums: Whether every file is read; without, a check knows size and time alone.
        replace_declared: Whether a file that is declared already may become another.

    Raises:
        InvalidRequest: If it is no folder, holds too many files, or a declared file would change.
    """
    name = folder.absolute().name if name is None else name
    if not _NAME.fullmatch(name) or name == RAW:
        raise InvalidRequest(
            f"A reference is named by letters, digits, '.', '_' and '-', and not {RAW!r}; got {name!r}.",
            hint="--name imagenet",
        )
    if not folder.is_dir():
        raise InvalidRequest(f"{folder} is no folder here.", hint=f"ls -ld {folder}")
    root = Path(os.path.normpath(folder.absolute()))
    if root.is_relative_to(project.absolute()):
        raise InvalidRequest(f"{folder} lies in the project: it is no reference.", hint=f"helpers data add {folder}")
    file = manifest_file(project, name)
    area = Area(name=name, project=project, file=file, root=root, manifest=read_manifest(file))
    said = _as_said(root, data)
    if area.manifest.root not in {"", said} and not replace_declared:
        raise InvalidRequest(
            f"{file} refers to {area.manifest.root}, not to {said}.", hint="another --name, or on purpose: --replace"
        )
    entries, seen = _describe(area, checksums=checksums)
    file.parent.mkdir(exist_ok=True)
    return record(area, entries, seen, replace_declared=replace_declared, root=said)


def _as_said(root: Path, data: Path | None) -> str:
    if data is not None and root.is_relative_to(data):
        below = root.relative_to(data).as_posix()
        return DATA_SETTING if below == "." else f"{DATA_SETTING}/{below}"
    return str(root)


def _describe(area: Area, *, checksums: bool) -> tuple[dict[str, Entry], dict[str, Seen]]:
    files = {path: found for path, found in walk(area.root).files.items() if not need_not_be_declared(path)}
    if len(files) > MOST_FILES:
        raise InvalidRequest(
            f"{area.root} holds {len(files):,} files; a manifest in git takes {MOST_FILES:,} at most.",
            hint="keep them in archives (tar, zip, squashfs), or refer to a folder of it",
        )
    if not checksums:
        plain = {path: Entry(path=path, size=one.size, sha256="", mtime_ns=one.mtime_ns) for path, one in files.items()}
        return plain, {}
    seen: dict[str, Seen] = {}
    for path, one in zip(files, read_files(area, files), strict=True):
        if isinstance(one, OSError):
            raise InvalidRequest(f"{area.shown(path)} cannot be read: {one.strerror}.", hint=f"ls -l {area.root}")
        seen[path] = one
    entries = {
        path: Entry(path=path, size=one.size, sha256=one.sha256, mtime_ns=one.mtime_ns or None)
        for path, one in seen.items()
    }
    return entries, seen
