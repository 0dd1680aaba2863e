"""Pack a run into one file for a tape or a slow disk, prove that it is whole, and bring it back.

The archive is a gzipped tar of the run folder and of the snapshot of source that it ran with, both by their path below
the folder of runs; its last member lists size and sha256 of each file. Beside it lies ``<archive>.sha256``, as
``sha256sum --check`` reads it: a tape's own tools can tell, too, whether the file is whole.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.rank.source import read_source
from helpers.runtime.raw_data.manifest import Entry, Manifest, format_manifest, parse_manifest
from helpers.runtime.run.description import read_description
from helpers.runtime.run.folder import RunFolder
from helpers.submission.jobs.cleaning import find_old_runs
from helpers.submission.source.snapshot import SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENTS = "CONTENTS.manifest"
"""The archive's last member."""

SUFFIX = ".tar.gz"
_BLOCK = 2**20
_FAST = 1  # checkpoints hardly shrink: a higher level costs time and saves nothing


@dataclass(frozen=True, kw_only=True)
class Archived:
    """An archive that was read through after it was written, and is whole.

    Args:
        file: The archive.
        run: The run folder, as it was or is again.
        files: Files that it holds.
        size: Bytes of the archive.
        sha256: Of the archive.
    """

    file: Path
    run: Path
    files: int
    size: int
    sha256: str


def archive_run(folder: Path, target: Path) -> Archived:
    """Pack a run, and read the archive through.

    Args:
        folder: The run folder.
        target: The folder that the archive goes to; made where it is not there.

    Raises:
        InvalidRequest: If the run has not ended, the archive is there already, or cannot be written whole.
    """
    if not find_old_runs([folder]):
        raise InvalidRequest(
            f"{folder} has not ended, or how it ended is not known: it is not packed.", hint=f"helpers status {folder}"
        )
    name = read_description(RunFolder(folder)).name
    file = target / f"{name}-{folder.name}{SUFFIX}"
    if file.exists():
        raise InvalidRequest(f"{file} is there already.", hint=f"helpers archive --verify {file}")
    part = file.with_name(f".{file.name}.part")
    try:
        target.mkdir(parents=True, exist_ok=True)
        _pack(folder, part)
        archived = verify_archive(part, run=folder)
        _sync(part)
        part.rename(file)
        _checksum_file(file).write_text(f"{archived.sha256}  {file.name}\n", encoding="utf-8")
    except (OSError, tarfile.TarError) as error:
        raise InvalidRequest(f"{folder} cannot be packed into {file}: {error}.", hint=f"df -h {target}") from error
    finally:
        part.unlink(missing_ok=True)
    return Archived(file=file, run=folder, files=archived.files, size=archived.size, sha256=archived.sha256)


def verify_archive(file: Path, *, run: Path | None = None) -> Archived:
    """Read an archive through; compare each file with the list, and the whole with the checksum that lies beside it.

    Raises:
        InvalidRequest: If it cannot be read, or is not what was packed; the first file that differs is named.
    """
    found: dict[str, Entry] = {}
    contents: bytes | None = None
    with _opened(file) as (packed, reader):
        for member in packed:
            if member.name == CONTENTS:
                contents = _content(packed, member).read()
            elif member.isreg():
                found[member.name] = _entry(member.name, _content(packed, member))
    declared, sha256 = _compare(file, contents, found), reader.digest.hexdigest()
    _compare_checksum(file, sha256)
    return Archived(
        file=file,
        run=run or Path(declared.root),
        files=len(found),
        size=file.stat().st_size,
        sha256=sha256,
    )


def restore_run(file: Path, runs: Path) -> Archived:
    """Bring a run back to the folder of runs, whole or not at all.

    Args:
        file: The archive.
        runs: The folder of runs.

    Raises:
        InvalidRequest: If the archive is not whole, or the run is there already.
    """
    archived = verify_archive(file)
    place = runs / archived.run
    if archived.run.is_absolute() or ".." in archived.run.parts or not archived.run.parts:
        raise InvalidRequest(f"{file} holds no run: it names {archived.run}.", hint=f"tar tzf {file}")
    if place.exists():
        raise InvalidRequest(f"{place} is there already: nothing was restored.", hint=f"helpers status {place}")
    runs.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".restoring-", dir=runs))
    try:
        with tarfile.open(file, "r:gz") as packed:
            packed.extractall(staging, filter="tar")  # no path leads out of the folder; links stay what they are
        _compare_restored(file, staging)
        for snapshot in sorted((staging / SNAPSHOTS).glob("*")):
            _take_place(snapshot, runs / SNAPSHOTS / snapshot.name)
        _take_place(staging / archived.run, place)
    except (OSError, tarfile.TarError) as error:
        raise InvalidRequest(f"{file} cannot be restored to {runs}: {error}.", hint=f"df -h {runs}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Archived(file=file, run=place, files=archived.files, size=archived.size, sha256=archived.sha256)


def _compare_restored(file: Path, staging: Path) -> None:
    """Compare what has reached the disk with the list."""
    found = {}
    for path in _all_below(staging):
        name = path.relative_to(staging).as_posix()
        if name != CONTENTS and path.is_file() and not path.is_symlink():
            with path.open("rb") as content:
                found[name] = _entry(name, content)
    _compare(file, (staging / CONTENTS).read_bytes(), found)


def _take_place(source: Path, place: Path) -> None:
    """Move a folder to its place, unless it is there: a snapshot is the same for all runs that name it."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        source.rename(place)


def _pack(folder: Path, file: Path) -> None:
    runs = folder.parent.parent
    entries: dict[str, Entry] = {}
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # private/ is in it
    with (
        os.fdopen(descriptor, "wb") as opened,
        tarfile.open(fileobj=opened, mode="w:gz", compresslevel=_FAST, format=tarfile.PAX_FORMAT) as packed,
    ):
        for top in (*_snapshot(folder, runs), folder):
            for path in _all_below(top):
                _add(packed, path, path.relative_to(runs).as_posix(), entries)
        data = format_manifest(Manifest(entries=entries, root=folder.relative_to(runs).as_posix()))
        member = tarfile.TarInfo(CONTENTS)
        member.size = len(data)
        packed.addfile(member, io.BytesIO(data))


def _snapshot(folder: Path, runs: Path) -> list[Path]:
    """Return the snapshot that the run was submitted with, where it lies beside the runs."""
    source = read_source(read_description(RunFolder(folder)).source)
    if source is None or source.snapshot is None:
        return []
    place = Path(source.snapshot).parent
    return [place] if place.is_dir() and place.parent == runs / SNAPSHOTS else []


def _all_below(top: Path) -> Iterator[Path]:
    """Yield a folder and all that lies in it; links are not followed."""
    yield top
    for place, folders, files in os.walk(top):
        for name in sorted((*folders, *files)):
            yield Path(place, name)


def _add(packed: tarfile.TarFile, path: Path, name: str, entries: dict[str, Entry]) -> None:
    """Put one file into the archive; its checksum is that of the bytes that went in."""
    member = packed.gettarinfo(path, name)
    if member is None:
        return  # a socket, which has nothing to keep
    if member.islnk():  # another name of a file that went in: it comes back as a file of its own
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
    if not member.isreg():
        packed.addfile(member)
        return
    with path.open("rb") as file:
        reader = _Hashing(file)
        packed.addfile(member, reader)
    entries[name] = Entry(path=name, size=member.size, sha256=reader.digest.hexdigest())


class _Hashing:
    """A file that notes the checksum of what is read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


@contextmanager
def _opened(file: Path) -> Iterator[tuple[tarfile.TarFile, _Hashing]]:
    """Read an archive once from its beginning to its end; the reader's digest is that of the whole file, afterwards."""
    try:
        with file.open("rb") as raw:
            reader = _Hashing(raw)
            with tarfile.open(fileobj=reader, mode="r|gz") as packed:  # type: ignore[call-overload]  # the same
                yield packed, reader
            while reader.read(_BLOCK):
                pass
    except (OSError, EOFError, tarfile.TarError) as error:
        raise InvalidRequest(f"{file} is no whole archive: {error}.", hint=f"gzip --test {file}") from error


def _content(packed: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = packed.extractfile(member)
    if content is None:
        raise tarfile.ReadError(f"{member.name} is no file")
    return content


def _entry(name: str, content: IO[bytes]) -> Entry:
    digest, size = hashlib.sha256(), 0
    while block := content.read(_BLOCK):
        digest.update(block)
        size += len(block)
    return Entry(path=name, size=size, sha256=digest.hexdigest())


def _compare(file: Path, contents: bytes | None, found: dict[str, Entry]) -> Manifest:
    if contents is None:
        raise InvalidRequest(f"{file} is no archive of a run: it has no {CONTENTS}.", hint=f"tar tzf {file}")
    declared = parse_manifest(contents, f"{file}: {CONTENTS}")
    names = sorted(declared.entries.keys() | found.keys())
    differing = [name for name in names if declared.entries.get(name) != found.get(name)]
    if differing:
        raise InvalidRequest(
            f"{file} is damaged: {differing[0]} is not what was packed ({len(differing)} of {len(names)} files).",
            hint="take another copy of the archive",
        )
    return declared


def _compare_checksum(file: Path, sha256: str) -> None:
    beside = _checksum_file(file)
    if not beside.exists():
        return
    declared = beside.read_text(encoding="utf-8").split()
    if declared[:1] != [sha256]:
        raise InvalidRequest(f"{file} is not the file that {beside.name} tells of.", hint=f"sha256sum {file}")


def _checksum_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
