"""Say where things are kept, how full that is, and what will be deleted there soon.

A home folder is small and backed up, scratch is large and not, and often deletes what nobody has touched for weeks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.config import storage_folder
from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.config import Settings

FOLDERS = ("runs", "data", "caches", "archive", "scratch")
FULL = 0.9
"""The share of a limit from which on it is said."""

SOON_DAYS = 7
"""How long before they are deleted files are named."""

_DAY_S = 86400
_UNITS_D = {"d": 1, "w": 7, "m": 30}
_QUOTA_TIMEOUT_S = 10
_KIB = 1024
_MOST_LOOKED_AT = 20_000  # files, for the oldest of them; more would make a status slow


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder that the settings name.

    Args:
        name: ``runs``, ``data``, ``caches``, ``archive`` or ``scratch``.
        folder: Where it is, whether it is there yet or not; None where nobody says.
        origin: Who says so.
        free: Bytes that are free to this user on its file system; None where there is none.
        size: Bytes that the file system has in all.
        files_free: The share of files that may still be made there; None where there is no limit.
        used_of_quota: The share of the user's quota that is taken; None where none is known.
        expires_days: Days after which files that nobody touches are deleted; None where they are kept.
    """

    name: str
    folder: Path | None
    origin: str
    free: int | None = None
    size: int | None = None
    files_free: float | None = None
    used_of_quota: float | None = None
    expires_days: float | None = None


def places(project: Path, settings: Settings) -> list[Place]:
    """Return the folders that the settings name, and how full they are.

    Raises:
        InvalidRequest: If a variable in one is not set, or the age of expiry cannot be read.
    """
    scratch = storage_folder("scratch", project, settings)
    expiry = settings.get("storage.expires_after")
    days = None if expiry is None else parse_days(expiry)
    quotas = _quotas()
    found = []
    for name in FOLDERS:
        entry = settings.entry(f"storage.{name}")
        folder = storage_folder(name, project, settings)
        if folder is None or entry is None:
            found.append(Place(name=name, folder=None, origin="nobody says"))
            continue
        expires = days if scratch is None or folder.is_relative_to(scratch) else None
        found.append(_look_at(name, folder, str(entry.origin), quotas, None if name == "archive" else expires))
    return found


def storage_warnings(project: Path, settings: Settings) -> list[str]:
    """Return a sentence for each limit that is near, and for what will soon be deleted.

    Raises:
        InvalidRequest: See :func:`places`.
    """
    known = [(place, place.folder) for place in places(project, settings) if place.folder is not None]
    warnings = []
    for place, folder in known:
        warnings += _limits(place, folder)
        if place.expires_days is not None and place.name in {"runs", "data"}:
            warnings += _expiring(place.name, folder, place.expires_days)
    raw = project / "data" / "raw"
    of_raw = next((place.expires_days for place, folder in known if _is_below(raw, folder, place.name)), None)
    return warnings if of_raw is None else [*warnings, *_expiring("raw data", raw, of_raw)]


def parse_days(text: str | float) -> float:
    """Read an age in days: ``60 days``, ``8 weeks``, ``2 months``, or a number of days.

    Raises:
        InvalidRequest: If it is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(d|days?|w|weeks?|m|months?)?", str(text).strip().lower())
    if match is None:
        raise InvalidRequest(
            f"storage.expires_after is an age; got {text!r}.", hint='expires_after = "60 days", "8 weeks", "2 months"'
        )
    return float(match[1]) * _UNITS_D[(match[2] or "d")[0]]


def size_in_words(size: float) -> str:
    """Return a size for people: ``12.3G``."""
    for unit in ("B", "K", "M", "G", "T"):
        if size < _KIB:
            return f"{size:.0f}{unit}" if unit in "BKM" else f"{size:.1f}{unit}"
        size /= _KIB
    return f"{size:.1f}P"


def _is_below(raw: Path, folder: Path, name: str) -> bool:
    """Say whether raw data lies in a folder of scratch, where a link may lead to."""
    return name == "scratch" and raw.exists() and raw.resolve().is_relative_to(folder.resolve())


def _look_at(name: str, folder: Path, origin: str, quotas: dict[str, float], expires_days: float | None) -> Place:
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    space = os.statvfs(nearest)
    return Place(
        name=name,
        folder=folder,
        origin=origin,
        free=space.f_bavail * space.f_frsize,
        size=space.f_blocks * space.f_frsize,
        files_free=space.f_favail / space.f_files if space.f_files else None,
        used_of_quota=quotas.get(_device_of(nearest)),
        expires_days=expires_days,
    )


def _limits(place: Place, folder: Path) -> list[str]:
    warnings = []
    if place.size and place.free is not None and place.free < place.size * (1 - FULL):
        warnings.append(f"storage.{place.name}: {size_in_words(place.free)} are free in {folder}")
    if place.files_free is not None and place.files_free < 1 - FULL:
        warnings.append(f"storage.{place.name}: {place.files_free:.0%} of the files are left in {folder}")
    if place.used_of_quota is not None and place.used_of_quota > FULL:
        warnings.append(f"storage.{place.name}: {place.used_of_quota:.0%} of your quota are taken in {folder}")
    return warnings


def _expiring(what: str, folder: Path, days: float) -> list[str]:
    """Name the file that will be deleted first, where that is soon."""
    oldest, when = _oldest(folder)
    if oldest is None:
        return []
    left = days - (time.time() - when) / _DAY_S
    if left > SOON_DAYS:
        return []
    in_words = f"will be deleted in {left:.0f} days" if left > 0 else "may be deleted any day"
    cure = "helpers archive RUN" if what == "runs" else "keep a copy elsewhere"
    return [f"{what}: {oldest} {in_words}, since nobody has touched it ({cure})"]


def _oldest(folder: Path) -> tuple[Path | None, float]:
    oldest: str | None = None
    when, looked_at = float("inf"), 0
    for place, _, files in os.walk(folder):
        for name in files:
            path = f"{place}/{name}"
            try:
                status = os.lstat(path)
            except OSError:
                continue
            touched = max(status.st_mtime, status.st_atime)
            if touched < when:
                oldest, when = path, touched
            looked_at += 1
        if looked_at > _MOST_LOOKED_AT:
            break
    return (None if oldest is None else Path(oldest)), when


def _device_of(folder: Path) -> str:
    """Return what is mounted where a folder lies, as ``quota`` names it; empty where that cannot be told."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    fields = [line.split(" ") for line in mounts]
    here = folder.resolve()
    below = [(len(words[1]), words[0]) for words in fields if here.is_relative_to(Path(words[1].replace("\\040", " ")))]
    return max(below, default=(0, ""))[1]


def _quotas() -> dict[str, float]:
    """Return the share that is taken of each limit that ``quota`` tells, by device; none where there is no quota."""
    if shutil.which("quota") is None:
        return {}
    try:
        done = subprocess.run(["quota", "-w"], capture_output=True, text=True, timeout=_QUOTA_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return read_quotas(done.stdout.splitlines())


def read_quotas(lines: Iterable[str]) -> dict[str, float]:
    """Read what ``quota -w`` prints: device, blocks, quota, limit, [grace], files, quota, limit, [grace]."""
    shares: dict[str, float] = {}
    for line in lines:
        device, *words = line.split() or [""]
        numbers = [int(word.rstrip("*")) for word in words if word.rstrip("*").isdecimal()]
        pairs = [(numbers[at], numbers[at + 1] or numbers[at + 2]) for at in (0, 3) if len(numbers) >= at + 3]
        taken = [used / allowed for used, allowed in pairs if allowed]
        if taken:
            shares[device] = max(taken)
    return shares
