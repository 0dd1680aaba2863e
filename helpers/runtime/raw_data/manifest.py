r"""Read and write a manifest of raw data: a line a file, with tabs between path, size in bytes and sha256.

The lines are sorted by path, so that git shows an added file as an added line. A path is written as it is, but for
backslashes, control characters, bytes that are no UTF-8 and a leading ``#``, each of which is ``\xNN``. A fourth
column is ``git`` where git keeps the file, so that every clone has it. Where the data is another's, whose times hold
everywhere, it is the file's time in seconds and nanoseconds. ``-`` in place of the checksum means that none was taken.
Lines that begin with ``#`` are for people, but for ``# root: …``, which says where the files are, if not in the folder
beside the manifest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256 as hash_of
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".manifest"
_NO_CHECKSUM = "-"
_GIT = "git"
_ROOT = "# root: "
_TO_ESCAPE = re.compile(r"[\\\x00-\x1f\x7f\ud800-\udfff]|^#")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_CHECKSUM = re.compile(r"[0-9a-f]{64}|-")
_BILLION = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file as it was declared.

    Args:
        path: Below the root, with ``/`` between folders.
        size: In bytes.
        sha256: Of its content, in hex; empty where none was taken.
        mtime_ns: Its time when it was declared; None where that differs from clone to clone.
        in_git: Whether git keeps it, so that a clone without it has lost it.
    """

    path: str
    size: int
    sha256: str
    mtime_ns: int | None = None
    in_git: bool = False

    def line(self) -> str:
        """Return the manifest's line."""
        fields = [escape(self.path), str(self.size), self.sha256 or _NO_CHECKSUM]
        if self.mtime_ns is not None:
            fields.append(f"{self.mtime_ns // _BILLION}.{self.mtime_ns % _BILLION:09}")
        elif self.in_git:
            fields.append(_GIT)
        return "\t".join(fields)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What was declared.

    Args:
        entries: Each file by its path.
        root: Where the files are, as the manifest says it; empty for the folder beside it.
        digest: sha256 of the manifest itself; empty where there is none.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    root: str = ""
    digest: str = ""


def escape(path: str) -> str:
    """Return a path that has one line and only what UTF-8 can hold."""

    def codes(match: re.Match[str]) -> str:
        return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape"))

    return _TO_ESCAPE.sub(codes, path)


def unescape(text: str) -> str:
    """Return the path that ``escape`` was given."""
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1]).decode("utf-8", "surrogateescape"), text)


def read_manifest(file: Path) -> Manifest:
    """Read a manifest; an empty one where there is no such file.

    Raises:
        InvalidRequest: If it cannot be read or a line is none of a manifest, with file and line.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.", hint=f"ls -l {file}") from error
    return parse_manifest(data, str(file))


def parse_manifest(data: bytes, name: str) -> Manifest:
    """Read what a manifest holds.

    Raises:
        InvalidRequest: See :func:`read_manifest`.
    """
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name} is no manifest: it is not UTF-8 ({error.reason}).") from error
    entries: dict[str, Entry] = {}
    root = ""
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        if line.startswith(_ROOT):
            root = unescape(line.removeprefix(_ROOT))
        if not line or line.startswith("#"):
            continue
        entry = _read_line(line)
        if entry is None:
            raise InvalidRequest(
                f"{name}:{number}: a line has path, size and sha256, with tabs between them; got {line!r}.",
                hint="after a merge: keep the lines of both sides, then helpers data verify",
            )
        if entries.setdefault(entry.path, entry) != entry:
            raise InvalidRequest(
                f"{name}:{number}: {escape(entry.path)} is declared twice, and differently.",
                hint="after a merge: keep the line that is true, then helpers data verify",
            )
    return Manifest(entries=entries, root=root, digest=hash_of(data).hexdigest())


def _read_line(line: str) -> Entry | None:
    path, *facts = line.split("\t")
    if len(facts) not in {2, 3} or not facts[0].isdecimal() or not _CHECKSUM.fullmatch(facts[1]):
        return None
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return None
    size, checksum, *more = facts
    in_git = more == [_GIT]
    mtime_ns = None
    if more and not in_git:
        seconds, _, fraction = more[0].partition(".")
        if not (seconds.removeprefix("-") + fraction).isdecimal():
            return None
        mtime_ns = int(seconds) * _BILLION + int(fraction or 0)
    sha256 = "" if checksum == _NO_CHECKSUM else checksum
    return Entry(path=unescape(path), size=int(size), sha256=sha256, mtime_ns=mtime_ns, in_git=in_git)


def write_manifest(file: Path, manifest: Manifest) -> Manifest:
    """Replace a manifest, whole or not at all, and return it with its new digest."""
    data = format_manifest(manifest)
    write_whole(file, data)
    return Manifest(entries=manifest.entries, root=manifest.root, digest=hash_of(data).hexdigest())


def format_manifest(manifest: Manifest) -> bytes:
    """Return what a manifest's file holds."""
    lines = [f"{_ROOT}{escape(manifest.root)}"] if manifest.root else []
    lines += sorted(entry.line() for entry in manifest.entries.values())
    return "".join(f"{line}\n" for line in lines).encode()
