"""The list of a checkpoint's files, written last: a folder without a right one is no checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import xxhash

from helpers.errors import HelpersError
from helpers.training.checkpoints.tensor_file import Broken, FileRecord, check_file

if TYPE_CHECKING:
    from pathlib import Path

NAME = "MANIFEST.json"
FORMAT = 1


class NewerFormat(HelpersError, ValueError):
    """A checkpoint was written by a later version of this library."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What one checkpoint consists of.

    Args:
        step: Steps done.
        epoch: The epoch to go on with, from 0.
        world_size: Ranks that saved.
        attempt: The start of the job that saved, from 0.
        files: Every file but this one.
        facts: What else is worth knowing: torch's version, threads, time, the metric of a best one.
        format: Version of this layout.
    """

    step: int
    epoch: int
    world_size: int
    attempt: int
    files: dict[str, FileRecord]
    facts: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        """Return the file's content, which carries a checksum of itself."""
        text = json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)
        return _with_checksum(text)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint, without its files.

    Raises:
        Broken: If it is missing or not what was written.
        NewerFormat: If this version cannot read it.
    """
    path = folder / NAME
    try:
        data = path.read_bytes()
        values = json.loads(data)["manifest"]
        text = json.dumps(values, separators=(",", ":"), sort_keys=True)
    except OSError as error:
        raise Broken(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Broken(f"{path} is damaged: {error}.") from error
    if data != _with_checksum(text):  # every byte counts, also those that JSON would overlook
        raise Broken(f"{path} is damaged: its checksum is wrong.")
    if values["format"] > FORMAT:
        raise NewerFormat(
            f"{folder} has format {values['format']}; this version reads up to {FORMAT}.",
            hint="pip install --upgrade slurm-torch-helpers@<the version that wrote it>",
        )
    files = {name: FileRecord(**record) for name, record in values.pop("files").items()}
    return Manifest(files=files, **values)


def check_lengths(folder: Path, manifest: Manifest) -> None:
    """Compare the lengths of the files, a cheap look.

    Raises:
        Broken: If a file is missing or has another length.
    """
    for name, record in manifest.files.items():
        try:
            length = (folder / name).stat().st_size
        except OSError as error:
            raise Broken(f"{folder / name} cannot be read: {error.strerror}.") from error
        if length != record.length:
            raise Broken(f"{folder / name} has {length} bytes, and {record.length} were written.")


def check_whole(folder: Path) -> Manifest:
    """Read every byte of a checkpoint and return its manifest.

    Raises:
        Broken: Naming the first file that is not what was written.
        NewerFormat: If this version cannot read it.
    """
    manifest = read_manifest(folder)
    check_lengths(folder, manifest)
    for name, record in manifest.files.items():
        check_file(folder / name, record)
    return manifest


def _with_checksum(text: str) -> bytes:
    checksum = xxhash.xxh3_128_hexdigest(text.encode())
    return f'{{"manifest":{text},"xxh3_128":"{checksum}"}}\n'.encode()
