"""Copy files so that each is known to be whole: list them, copy them with a checksum, unpack archives."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import xxhash

from helpers.errors import HelpersError
from helpers.runtime.rank.thread_count import available_cpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_CHUNK = 4 << 20  # bytes
_MOST_THREADS = 8
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


class StagingFailed(HelpersError, RuntimeError):
    """Data could not be copied to this node, or not whole; nothing half done is left in its place."""


@dataclass(frozen=True)
class SourceFile:
    """One file below a folder, as it was when it was looked at.

    Args:
        path: Relative to the folder.
        size: In bytes.
        mtime_ns: When its content was last changed, in nanoseconds since the epoch.
    """

    path: str
    size: int
    mtime_ns: int


def look_at(source: Path) -> list[SourceFile]:
    """List a file, or all files below a folder, links followed, in an order that depends on the names alone.

    Raises:
        StagingFailed: If something is neither a file nor a folder, or a link leads back to a folder above it.
    """
    if source.is_dir():
        return sorted(_below(source, "", frozenset()), key=lambda file: file.path)
    return [_entry(source, "")]


def _below(folder: Path, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[SourceFile]:
    status = folder.stat()
    place = (status.st_dev, status.st_ino)
    if place in above:
        raise StagingFailed(f"{folder} is a link to a folder that it lies in: it has no end.")
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if entry.is_dir():
            yield from _below(folder / entry.name, f"{prefix}{entry.name}/", above | {place})
        else:
            yield _entry(folder / entry.name, f"{prefix}{entry.name}")


def _entry(file: Path, path: str) -> SourceFile:
    try:
        status = file.stat()
    except OSError as error:
        raise StagingFailed(f"{file} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise StagingFailed(f"{file} is neither a file nor a folder.")
    return SourceFile(path, status.st_size, status.st_mtime_ns)


def signature(parts: Any) -> str:
    """Return 16 hexadecimal digits that depend on ``parts``, of which ``repr`` shows all."""
    return xxhash.xxh3_64_hexdigest(repr(parts).encode())


def as_records(files: list[SourceFile]) -> list[dict[str, Any]]:
    """Return the files as JSON has them."""
    return [asdict(file) for file in files]


def copy_all(source: Path, files: list[SourceFile], target: Path, copied: Callable[[int], None]) -> None:
    """Copy files, several at a time; each copy is read again and compared by its checksum.

    Args:
        source: The file or the folder that ``files`` were found in.
        files: What is to be copied.
        target: Where the copy of ``source`` will be.
        copied: Called with the number of bytes, after each piece.

    Raises:
        StagingFailed: If a file changes meanwhile, or a copy is not what was read.
        OSError: If the disk is full or a file cannot be read.
    """
    pairs = [(source / file.path, target / file.path, file) if file.path else (source, target, file) for file in files]
    for folder in {copy.parent for _, copy, _ in pairs}:
        folder.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)  # also an empty one
    with ThreadPoolExecutor(min(_MOST_THREADS, 2 * len(available_cpus()))) as pool:
        begun = [pool.submit(copy_file, *pair, copied) for pair in pairs]
        try:
            for one in begun:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def copy_file(file: Path, copy: Path, expected: SourceFile, copied: Callable[[int], None]) -> None:
    """Copy one file; see :func:`copy_all`."""
    read = xxhash.xxh3_64()
    with file.open("rb") as source, copy.open("wb") as target:
        while piece := source.read(_CHUNK):
            target.write(piece)
            read.update(piece)
            copied(len(piece))
        now = os.fstat(source.fileno())
    if (now.st_size, now.st_mtime_ns) != (expected.size, expected.mtime_ns) or copy.stat().st_size != expected.size:
        raise StagingFailed(f"{file} was changed while it was copied.", hint="Stage data that nobody writes to.")
    if _checksum(copy) != read.hexdigest():
        raise StagingFailed(f"The copy of {file} is not what was read: {copy.parent} is on a faulty disk.")
    copy.chmod(stat.S_IMODE(now.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    os.utime(copy, ns=(now.st_atime_ns, now.st_mtime_ns))


def _checksum(file: Path) -> str:
    checksum = xxhash.xxh3_64()
    with file.open("rb") as opened:
        while piece := opened.read(_CHUNK):
            checksum.update(piece)
    return checksum.hexdigest()


def is_archive(source: Path) -> bool:
    """Say whether :func:`unpack` knows this kind of archive, by its name."""
    return source.name.lower().endswith(ARCHIVES)


def stem_of(archive: Path) -> str:
    """Return the name without what tells the kind: the folder that an archive is unpacked to."""
    suffix = max((end for end in ARCHIVES if archive.name.lower().endswith(end)), key=len)
    return archive.name[: -len(suffix)] or "unpacked"


def size_unpacked(archive: Path) -> int:
    """Return how many bytes an archive will take at least; a compressed tar does not tell."""
    if archive.name.lower().endswith(".zip") and zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            return sum(member.file_size for member in opened.infolist())
    return archive.stat().st_size


def unpack(archive: Path, target: Path) -> None:
    """Unpack an archive into a new folder; what would land outside of it is refused.

    Raises:
        StagingFailed: If the archive is damaged or cut short, or has such a member.
    """
    target.mkdir()
    try:
        if archive.name.lower().endswith(".zip"):
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(target)  # noqa: S202 -- zipfile drops what leads out of the folder
        else:
            with tarfile.open(archive) as opened_tar:
                opened_tar.extractall(target, filter="data")  # PEP 706
    except _BROKEN as error:
        raise StagingFailed(f"{archive.name} cannot be unpacked: {type(error).__name__}: {error}") from error


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, also folders that an archive has made read-only."""
    for place, _, _ in os.walk(folder):
        os.chmod(place, stat.S_IRWXU)  # noqa: PTH101 -- os.walk gives text
    shutil.rmtree(folder, ignore_errors=True)
