"""List the files of a project that are its source, and notice cheaply whether any of them has changed.

Source is what git tracks or would offer to add; without git, what is neither hidden nor made. A folder counts
where it, or one below it, has a file of code or configuration; what has none (data, reports, results), what
git ignores, what is too large and what is called ``data`` at the top is *linked*: the job sees it as it is then.
"""

from __future__ import annotations

import functools
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

from helpers.runtime.git import run_git

FILE_LIMIT_MB = 5
"""A larger file is linked: it is data, or made."""

TOTAL_LIMIT_MB = 100
"""A project with more source than this gets no snapshot, which is said."""

FILES_LIMIT = 20_000
"""The same for their number."""

TIME_LIMIT_S = 20.0
"""The same for the time that listing and copying take together."""

MIB = 2**20
_CODE = frozenset(
    [
        ".py",
        ".pyi",
        ".pyx",
        ".pxd",
        ".toml",
        ".yaml",
        ".yml",
        ".json",
        ".cfg",
        ".ini",
        ".conf",
        ".sh",
        ".r",
        ".jl",
        ".ipynb",
        ".c",
        ".cc",
        ".cpp",
        ".cu",
        ".cuh",
        ".h",
        ".hpp",
        ".rs",
        ".sql",
        ".j2",
        ".jinja",
        ".smk",
        ".txt",
        ".md",
    ]
)
_WORDS = frozenset({".txt", ".md"})  # copied beside code; alone they make no folder a source folder
_NEVER = frozenset({"data", "runs"})  # at the top
_SKIPPED = frozenset({"__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"})
_RACY_S = 0.05  # a file changed so shortly before it was looked at may change again without another time stamp

Stamp = tuple[int, int, int, int]


class TooLarge(Exception):
    """The project has more than a snapshot takes; the message says what."""


@dataclass(frozen=True, kw_only=True)
class ProjectFiles:
    """The source of a project at one moment.

    Args:
        root: The project's folder.
        files: Each file of source by its path below the root, with what tells a changed one.
        folders: The folders that hold them, below the root; ``""`` is the root.
        linked: What those folders hold besides, below the root.
        stamps: Of all that tells whether the list has changed, by absolute path.
        taken: When it was listed, in nanoseconds since the epoch.
        has_git: Whether git told which files there are.
        untracked: The code among them that git does not know yet, in order.
    """

    root: str
    files: dict[str, Stamp]
    folders: set[str]
    linked: set[str]
    stamps: dict[str, Stamp | None] = field(repr=False)
    taken: int
    has_git: bool
    untracked: list[str] = field(default_factory=list)

    def is_current(self) -> bool:
        """Say whether nothing has changed since, by looking at each file's and folder's time and size."""
        return self._are_settled and all(stamp_of(path) == stamp for path, stamp in self.stamps.items())

    @functools.cached_property
    def _are_settled(self) -> bool:
        return all(self.is_settled(stamp) for stamp in self.stamps.values())

    def is_settled(self, stamp: Stamp | None) -> bool:
        """Say whether a file was old enough, when it was looked at, to change its time stamp if it changes again."""
        return stamp is None or max(stamp[0], stamp[3]) < self.taken - _RACY_S * 1e9


def stamp_of(path: str) -> Stamp | None:
    """Return what changes when a file does; None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return (found.st_mtime_ns, size, found.st_ino, found.st_ctime_ns)


def list_project(root: str, *, runs: str, deadline: float) -> ProjectFiles:
    """List a project's source.

    Args:
        root: The project's folder.
        runs: The folder of runs, which is never source.
        deadline: By ``time.monotonic()``.

    Raises:
        TooLarge: If it is more than a snapshot takes, or takes too long.
    """
    taken = time.time_ns()
    listed = _listed_by_git(root, deadline)
    names = _listed_by_walking(root, runs, deadline) if listed is None else sorted(listed)
    if len(names) > FILES_LIMIT:
        raise TooLarge(f"it has {len(names):,} files; the limit is {FILES_LIMIT:,}")
    runs_below = os.path.relpath(runs, root)
    found = _regular_files(root, [name for name in names if not _is_below(name, runs_below)], deadline)
    code = [name for name in found if Path(name).suffix.lower() in _CODE - _WORDS]
    code = [name for name in code if name.partition("/")[0] not in _NEVER or "/" not in name]
    folders = {""} | {str(parent) for name in code for parent in Path(name).parents if str(parent) != "."}
    files = {
        name: stamp for name, stamp in found.items() if _folder(name) in folders and stamp[1] <= FILE_LIMIT_MB * MIB
    }
    _check_total(files)
    linked, stamps = _rest(root, files, folders, holding={str(above) for name in found for above in Path(name).parents})
    stamps |= {os.path.join(root, name): stamp for name, stamp in files.items()}  # noqa: PTH118 -- thousands of them
    stamps |= _stamps_of_git(root) if listed is not None else {}
    return ProjectFiles(
        root=root,
        files=files,
        folders=folders,
        linked=linked,
        stamps=stamps,
        taken=taken,
        has_git=listed is not None,
        untracked=[name for name in code if name in files and listed is not None and not listed[name]],
    )


def _listed_by_git(root: str, deadline: float) -> dict[str, bool] | None:
    """Return what git tracks or would offer to add, and whether it tracks it; None without git."""
    left = deadline - time.monotonic()
    words = ("ls-files", "-t", "-z", "--cached", "--others", "--exclude-standard")
    printed = run_git(root, *words, timeout_s=max(left, 0.1))
    if printed is None:
        if time.monotonic() > deadline:
            raise TooLarge(f"git took more than {TIME_LIMIT_S:.0f} s to list its files")
        return None
    return {os.fsdecode(line[2:]): not line.startswith(b"?") for line in printed.split(b"\0") if line}


def _listed_by_walking(root: str, runs: str, deadline: float) -> list[str]:
    names: list[str] = []
    for folder, below, files in os.walk(root):
        if time.monotonic() > deadline or len(names) > FILES_LIMIT:
            raise TooLarge(f"it has too many files to look at, and no git that knows which are its source ({folder})")
        below[:] = [name for name in below if not _is_made(folder, name) and os.path.join(folder, name) != runs]  # noqa: PTH118
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files if not name.endswith(".pyc")]  # noqa: PTH118
    return sorted(names)


def _is_made(folder: str, name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED | {"node_modules"} or Path(folder, name, "pyvenv.cfg").exists()


def _regular_files(root: str, names: list[str], deadline: float) -> dict[str, Stamp]:
    found = {}
    for name in names:
        if _is_secret(name):
            continue
        path = os.path.join(root, name)  # noqa: PTH118 -- thousands of them
        try:
            is_file = stat.S_ISREG(os.lstat(path).st_mode)
        except OSError:
            continue  # tracked, and deleted
        stamp = stamp_of(path) if is_file else None
        if stamp is not None:
            found[name] = stamp
        if time.monotonic() > deadline:
            raise TooLarge(f"looking at its files took more than {TIME_LIMIT_S:.0f} s")
    return found


def _is_secret(name: str) -> bool:
    """Say whether a file is there for what must not be copied: ``.env`` and its like."""
    last = name.rpartition("/")[2]
    return last == ".netrc" or (last.startswith(".env") and not last.endswith((".example", ".template", ".sample")))


def _check_total(files: dict[str, Stamp]) -> None:
    total = sum(stamp[1] for stamp in files.values())
    if total <= TOTAL_LIMIT_MB * MIB:
        return
    sizes: dict[str, int] = {}
    for name, stamp in files.items():
        sizes[_folder(name) or "."] = sizes.get(_folder(name) or ".", 0) + stamp[1]
    largest = max(sizes, key=lambda name: sizes[name])
    raise TooLarge(
        f"its source takes {total // MIB} MiB, {sizes[largest] // MIB} of them in {largest}; "
        f"the limit is {TOTAL_LIMIT_MB} MiB"
    )


def _rest(
    root: str, files: dict[str, Stamp], folders: set[str], *, holding: set[str]
) -> tuple[set[str], dict[str, Stamp | None]]:
    """Return what lies beside the source, and the stamps of the folders in which more of it may appear.

    Those are the folders of source, those that hold listed files of other kinds (``holding``), and empty ones;
    a folder of results, which git ignores, may change with every run.
    """
    linked: set[str] = set()
    stamps: dict[str, Stamp | None] = {}
    for folder in folders:
        place = os.path.join(root, folder) if folder else root  # noqa: PTH118
        stamps[place] = stamp_of(place)
        with os.scandir(place) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if name in files or name in folders or entry.name in _SKIPPED:
                    continue
                linked.add(name)
                is_folder = entry.is_dir(follow_symlinks=False) and name not in _NEVER
                if is_folder and (name in holding or not os.listdir(entry.path)):  # noqa: PTH208 -- is there anything
                    stamps[entry.path] = stamp_of(entry.path)
    return linked, stamps


def _stamps_of_git(root: str) -> dict[str, Stamp | None]:
    printed = run_git(root, "rev-parse", "--absolute-git-dir")
    if printed is None:
        return {}
    folder = os.fsdecode(printed).rstrip("\n")
    return {f"{folder}/{name}": stamp_of(f"{folder}/{name}") for name in ("HEAD", "index", "logs/HEAD")}


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")
