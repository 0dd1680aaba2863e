"""Declare raw data: take in new files, and change or take out declared ones where that is said on purpose."""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.raw_data.locking import lock
from helpers.runtime.raw_data.check import read_files
from helpers.runtime.raw_data.manifest import Entry, Manifest, escape, read_manifest, write_manifest
from helpers.runtime.raw_data.times import Times
from helpers.runtime.raw_data.tracked import to_be_tracked
from helpers.runtime.raw_data.walk import need_not_be_declared, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from helpers.runtime.raw_data.area import Area
    from helpers.runtime.raw_data.times import Seen

_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Added:
    """What was declared.

    Args:
        area: As it is now.
        new: Files that were not declared before.
        replaced: Files that were declared with another content.
        known: Files that were declared as they are.
        unprotected: Files and folders that could not be locked, with the reason.
    """

    area: Area
    new: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    unprotected: dict[str, str] = field(default_factory=dict)


def add(area: Area, given: Sequence[Path], *, replace_declared: bool = False) -> Added:
    """Declare files and lock them; those from elsewhere are copied in first.

    Nothing is declared, and no file is copied, unless all can be.

    Args:
        area: The project's own raw data.
        given: Files, or folders with files, in the area or elsewhere.
        replace_declared: Whether a declared file may become another.

    Raises:
        InvalidRequest: If there is no such file, it is none that can be kept, or one that is declared would change.
    """
    area.root.mkdir(parents=True, exist_ok=True)
    inside, outside = _sort(area, given)
    taken = [path for path in outside if os.path.lexists(area.root / path)]
    _refuse_other_content(area, taken, [outside[path] for path in taken], replace_declared=replace_declared)
    _refuse_changes(area, inside, replace_declared=replace_declared)
    with _writable(area):
        for path, source in outside.items():
            _copy(source, area.root / path)
    return declare(area, [*inside, *outside], replace_declared=replace_declared)


def declare(area: Area, paths: Sequence[str], *, replace_declared: bool) -> Added:
    """Read files that are in place, write them into the manifest, and lock an area of our own."""
    seen = _read(area, paths)
    kept = to_be_tracked(area)
    entries = {
        path: Entry(path=path, size=one.size, sha256=one.sha256, in_git=path in kept) for path, one in seen.items()
    }
    return record(area, entries, seen, replace_declared=replace_declared)


def record(
    area: Area, entries: Mapping[str, Entry], seen: Mapping[str, Seen], *, replace_declared: bool, root: str = ""
) -> Added:
    """Write entries into the manifest; those that are there already may change only where that was said.

    Raises:
        InvalidRequest: If one would change, and that was not said.
    """
    declared = read_manifest(area.file).entries  # reading the files may have taken hours, and others add, too
    known = [path for path, entry in entries.items() if _is_same(declared.get(path), entry)]
    others = [path for path in entries if path in declared and path not in known]
    if others and not replace_declared:
        raise _declared_otherwise(area, others)
    written = write_manifest(area.file, Manifest(entries={**declared, **entries}, root=root or area.manifest.root))
    area = replace(area, manifest=written)
    times = Times.read(area.times)
    for path, one in seen.items():
        times.remember(path, one)
    times.write()
    new = sorted(entries.keys() - declared.keys())
    failed = {} if area.is_reference else lock(area).failed
    return Added(area=area, new=new, replaced=others, known=known, unprotected=failed)


def forget(area: Area, given: Sequence[Path]) -> list[str]:
    """Take files out of the manifest; the files themselves are left to the caller.

    Raises:
        InvalidRequest: If one is not declared.
    """
    paths = [_path_below(area, path) or str(path) for path in given]
    declared = area.manifest.entries
    gone = {one for path in paths for one in declared if one == path or one.startswith(f"{path}/")}
    unknown = [path for path in paths if path not in gone and not any(one.startswith(f"{path}/") for one in gone)]
    if unknown:
        raise InvalidRequest(f"{escape(unknown[0])} is not declared in {area.file}.", hint="helpers data status")
    entries = {path: entry for path, entry in declared.items() if path not in gone}
    write_manifest(area.file, replace(area.manifest, entries=entries))
    times = Times.read(area.times)
    for path in gone:
        times.forget(path)
    times.write()
    return sorted(gone)


def _is_same(declared: Entry | None, entry: Entry) -> bool:
    """Say whether an entry says what is declared; a time says nothing where both have a checksum."""
    if declared is None or not (declared.sha256 and entry.sha256):
        return declared == entry
    return (declared.size, declared.sha256) == (entry.size, entry.sha256)


def _sort(area: Area, given: Sequence[Path]) -> tuple[list[str], dict[str, Path]]:
    """Return the files that are in place, and those to copy, by the path that they get."""
    inside: dict[str, None] = {}
    outside: dict[str, Path] = {}
    for path in given:
        if not os.path.lexists(path):
            raise InvalidRequest(f"There is no file {escape(str(path))}.", hint=f"ls -l {escape(str(path))}")
        below = _path_below(area, path)
        if below is not None:
            inside |= dict.fromkeys(_files_in(area, path, below))
        elif area.root.resolve().is_relative_to(path.resolve()):
            raise InvalidRequest(f"{path} holds {area.root} itself.", hint=f"helpers data add {area.root}")
        elif path.is_dir():
            files = [name for name in walk(path).files if not need_not_be_declared(name)]
            outside |= {f"{path.absolute().name}/{name}": path / name for name in files}
        else:
            outside[path.name] = path
    for name, source in {**{name: area.root / name for name in inside}, **outside}.items():
        if not source.is_file():
            raise InvalidRequest(
                f"{escape(name)} is no file: a link to a folder or to nothing, or a pipe.",
                hint="data that lies elsewhere: helpers data add --reference /its/folder",
            )
    return list(inside), outside


def _path_below(area: Area, path: Path) -> str | None:
    """Return a path from the area's root, ``""`` for the root itself; None for one that is elsewhere."""
    place = Path(os.path.normpath(path.absolute()))
    resolved = place.parent.resolve() / place.name  # a link in the area stays itself
    for one, root in ((place, area.root.absolute()), (resolved, area.root.resolve())):
        if one == root or one.is_relative_to(root):
            below = one.relative_to(root).as_posix()
            return "" if below == "." else below
    return None


def _files_in(area: Area, path: Path, below: str) -> list[str]:
    if not path.is_dir() or (path.is_symlink() and below):
        return [below]
    found = walk(area.root / below).files
    names = [f"{below}/{name}" if below else name for name in found]
    return sorted(name for name in names if name in area.manifest.entries or not need_not_be_declared(name))


def _read(area: Area, paths: Sequence[str]) -> dict[str, Seen]:
    seen: dict[str, Seen] = {}
    for path, one in zip(paths, read_files(area, paths), strict=True):
        if isinstance(one, OSError):
            raise InvalidRequest(f"{area.shown(path)} cannot be read: {one.strerror}.", hint=f"ls -l {area.root}")
        seen[path] = one
    return seen


def _refuse_changes(area: Area, paths: Sequence[str], *, replace_declared: bool) -> None:
    """Refuse what would change a declared file before anything is copied."""
    if replace_declared:
        return
    declared = [path for path in paths if path in area.manifest.entries]
    changed = [path for path, one in _read(area, declared).items() if one.sha256 != area.manifest.entries[path].sha256]
    if changed:
        raise _declared_otherwise(area, changed)


def _refuse_other_content(area: Area, paths: Sequence[str], sources: Sequence[Path], *, replace_declared: bool) -> None:
    """Refuse to copy over a file that is there and another, unless that was said."""
    others = [
        path
        for path, source in zip(paths, sources, strict=True)
        if not (area.root / path).is_file() or not filecmp.cmp(area.root / path, source, shallow=False)
    ]
    if others and not replace_declared:
        raise _declared_otherwise(area, others)


def _declared_otherwise(area: Area, paths: Sequence[str]) -> InvalidRequest:
    named = ", ".join(area.shown(path) for path in paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return InvalidRequest(
        f"Raw data is added to, never changed: {named}{more} would become another.",
        hint="give it another name; or, on purpose: helpers data add --replace FILE",
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a file with its time, under its name only when it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name[:200]}.part")
    try:
        shutil.copy2(source, part)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InvalidRequest(
            f"{source} cannot be copied to {target}: {error.strerror}.", hint=f"df -h {target.parent}"
        ) from error


@contextmanager
def _writable(area: Area) -> Iterator[None]:
    """Let the owner make files in the area's folders; what goes wrong in between leaves them as they were."""
    closed = {path: mode for path, mode in walk(area.root).folders.items() if not mode & stat.S_IWUSR}
    for path, mode in closed.items():
        (area.root / path).chmod(stat.S_IMODE(mode) | stat.S_IWUSR)
    try:
        yield
    except BaseException:
        for path, mode in closed.items():
            (area.root / path).chmod(stat.S_IMODE(mode))
        raise
