"""Copy data to the node's own disk, once for all processes of the node, and know that the copy is whole.

Who comes first holds a lock of the kernel's (``flock``) and copies; the others wait. The lock of a process that dies
is free at once, and the next one begins anew. A copy gets its name when it is complete, and its name depends on the
source's files, sizes and times: data that has changed is copied anew, beside what others may still read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.config.folders import fill_in, storage_folder, working_directory
from helpers.errors import InvalidRequest
from helpers.runtime.current import current_run
from helpers.runtime.files import read_json, write_json
from helpers.training.data import staged_files
from helpers.training.data.staged_files import SourceFile, StagingFailed
from helpers.training.data.staging_progress import Progress, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RECORD = "staged.json"  # beside the files, written before the copy gets its name
_FILES = "files"
_LOOK_AGAIN_S = 0.1
_SAY_AFTER_S = 2
_SHORT = 8  # digits

_Location = str | os.PathLike[str]


def stage(source: _Location | Sequence[_Location], *, to: _Location | None = None, unpack: bool = False) -> Path:
    """Copy data to this node's own disk, once for all processes of the node, and return where it is.

    Every process calls this. One of them copies, with a progress bar on a terminal and plain lines in a log; each
    file's copy is compared by its checksum. A copy that is there already, from another job or attempt, is used if
    it is whole and the source has not changed. Links are followed: what is staged are files.

    Args:
        source: A file or a folder; or several, whose names differ.
        to: The folder to copy below. Else ``$SLURM_TMPDIR``, where the scheduler makes one and removes it; else the
            setting ``node_scratch`` in ``[storage]``; else the system's temporary folder.
        unpack: Whether the sources are archives (``.tar``, ``.tar.gz``, ``.tgz``, ``.tar.bz2``, ``.tar.xz``,
            ``.zip``) to be unpacked, each into a folder of its name.

    Returns:
        The copy of the one source, under the same name; of several, the folder that has them.

    Raises:
        InvalidRequest: If there is no such source, two have the same name, or one is no archive.
        StagingFailed: If there is not enough space, the source changes meanwhile, or an archive is damaged.
    """
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    sources = [Path(path).expanduser().absolute() for path in paths]
    base = _base(to)
    _require(sources, base, unpack=unpack)
    request = _Request(sources=tuple(sources), base=base, unpack=unpack)
    with _locked(base / f"{request.key}.lock", request.label):
        files = _find(request) or _copy(request)
    return files / request.names[0] if isinstance(source, str | os.PathLike) else files


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What is to be staged, and where.

    Args:
        sources: Absolute paths.
        base: The folder for this user's copies on this node.
        unpack: Whether the sources are archives to be unpacked.
    """

    sources: tuple[Path, ...]
    base: Path
    unpack: bool

    @property
    def names(self) -> list[str]:
        return [staged_files.stem_of(path) if self.unpack else path.name for path in self.sources]

    @property
    def label(self) -> str:
        more = len(self.sources) - 1
        return self.sources[0].name + (f" and {more} more" if more else "")

    @property
    def key(self) -> str:
        paths = [str(path) for path in self.sources]
        return f"{self.sources[0].name[:40]}-{staged_files.signature((paths, self.unpack))[:_SHORT]}"


def _find(request: _Request) -> Path | None:
    """Return a copy that another process of this attempt has seen to; nobody looks at the source again."""
    attempt = _this_attempt()
    for record in request.base.glob(f"{request.key}-*/{_RECORD}") if attempt else ():
        if attempt in (read_json(record) or {}).get("checked_by", []):
            return record.parent / _FILES
    return None


def _this_attempt() -> str:
    run = current_run()
    return "" if run.folder is None else f"{run.folder} {run.attempt}"


def _copy(request: _Request) -> Path:
    """Copy what is not there whole; the lock is held."""
    found = [staged_files.look_at(path) for path in request.sources]
    place = request.base / f"{request.key}-{staged_files.signature(found)[:_SHORT]}"
    if place.exists():
        if _is_whole(place):
            print(f"helpers: {request.label} is staged already in {place}.", file=sys.stderr, flush=True)
            return _checked(place)
        print(f"helpers: the copy in {place} is not whole any more; staging anew.", file=sys.stderr, flush=True)
        staged_files.remove(place)
    partial = request.base / f"{request.key}.partial"
    staged_files.remove(partial)  # of a process that died: nobody else can be copying, the lock is ours
    try:
        _require_space(request, found)
        _fill(request, found, partial)
        partial.rename(place)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise _too_little_space(request, f"{request.base} is full") from error
    finally:
        staged_files.remove(partial)
    return _checked(place)


def _fill(request: _Request, found: list[list[SourceFile]], partial: Path) -> None:
    total = sum(file.size for files in found for file in files)
    progress = Progress(f"staging {request.label} in {request.base}", total)
    target = partial / _FILES
    target.mkdir(parents=True)
    for source, files, name in zip(request.sources, found, request.names, strict=True):
        if request.unpack:
            archive = partial / source.name
            staged_files.copy_all(source, files, archive, progress.add)
            staged_files.unpack(archive, target / name)
            archive.unlink()
        else:
            staged_files.copy_all(source, files, target / name, progress.add)
    copies = staged_files.as_records(staged_files.look_at(target))
    write_json(partial / _RECORD, {"sources": [str(path) for path in request.sources], "files": copies})
    progress.end(len(copies))


def _is_whole(place: Path) -> bool:
    record = read_json(place / _RECORD) or {}
    with contextlib.suppress(StagingFailed, OSError):
        return bool(staged_files.as_records(staged_files.look_at(place / _FILES)) == record.get("files"))
    return False


def _checked(place: Path) -> Path:
    """Note that this attempt may use the copy without another look."""
    record = read_json(place / _RECORD) or {}
    if attempt := _this_attempt():
        write_json(place / _RECORD, {**record, "checked_by": [attempt]}, durable=False)
    return place / _FILES


def _base(to: _Location | None) -> Path:
    """Return the folder for this user's copies, made where it is missing, and nobody else's."""
    chosen = fill_in(os.fspath(to), "to") if to is not None else _folder_of_the_node()
    base = chosen.absolute() / f"helpers-staged-{os.getuid()}"
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = base.lstat()
    if base.is_symlink() or status.st_uid != os.getuid():
        raise StagingFailed(f"{base} belongs to somebody else.", hint='stage(…, to="/another/folder")')
    return base


def _folder_of_the_node() -> Path:
    if given := os.environ.get("SLURM_TMPDIR"):
        return Path(given)
    return storage_folder("node_scratch", working_directory()) or Path(tempfile.gettempdir())


def _require(sources: list[Path], base: Path, *, unpack: bool) -> None:
    if not sources:
        raise InvalidRequest("There is nothing to stage: the list of paths is empty.")
    for path in sources:
        if not path.exists():
            raise InvalidRequest(f"There is nothing at {path} on {os.uname().nodename}.", hint=f"ls -d {path.parent}/*")
        if base.is_relative_to(path):
            raise InvalidRequest(f"{path} holds the folder that it would be copied to, {base}.", hint="to=")
        if unpack and not (staged_files.is_archive(path) and path.is_file()):
            raise InvalidRequest(
                f"{path} is no archive, by its name.",
                hint=f"unpack=False, or one of {', '.join(staged_files.ARCHIVES)}",
            )
    names = [path.name for path in sources]
    if len(set(names)) < len(names):
        raise InvalidRequest(f"Two sources have the same name: {', '.join(sorted(names))}.", hint="Stage them apart.")


def _require_space(request: _Request, found: list[list[SourceFile]]) -> None:
    needed = sum(file.size for files in found for file in files)
    if request.unpack:
        needed += sum(staged_files.size_unpacked(path) for path in request.sources)
    free = shutil.disk_usage(request.base).free
    if needed > free:
        raise _too_little_space(request, f"it needs {shown(needed)}, and {request.base} has {shown(free)} free")


def _too_little_space(request: _Request, why: str) -> StagingFailed:
    return StagingFailed(
        f"{request.label} cannot be staged on {os.uname().nodename}: {why}.",
        hint=f'stage(…, to="/a/larger/disk"); what was staged before is there too: du -sh {request.base}/*',
    )


@contextlib.contextmanager
def _locked(lock: Path, label: str) -> Iterator[None]:
    """Hold the lock of one piece of data; the kernel gives it up for a process that dies (flock(2))."""
    begun, said = time.monotonic(), False
    with lock.open("a") as file:
        while not _try_lock(file.fileno()):
            if not said and time.monotonic() - begun > _SAY_AFTER_S:
                said = True
                message = f"helpers: waiting for another process of this node, which is staging {label}."
                print(message, file=sys.stderr, flush=True)
            time.sleep(_LOOK_AGAIN_S)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
