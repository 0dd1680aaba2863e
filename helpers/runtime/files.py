"""Write files that are either whole or not there, also after a crash."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from _typeshed import DataclassInstance


def write_whole(path: Path, data: bytes, *, mode: int = 0o666, durable: bool = True) -> None:
    """Replace ``path`` by ``data`` in one step that survives a crash.

    The bytes go to a temporary file in the same folder, reach the disk, and only then take the name; the
    folder is synchronised last, so that the name itself is durable.

    Args:
        path: The file to replace; its folder exists.
        data: The whole new content.
        mode: Permission bits before the umask.
        durable: Whether it must survive a loss of power; waiting for the disk takes a millisecond or more.

    Raises:
        OSError: If the disk is full or the folder cannot be written; the old file is then untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, os.fstat(descriptor).st_mode & 0o777 | 0o600)  # a function may deny even that
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable (a rename is otherwise lost with the power)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_end(path: Path, size: int) -> str:
    """Return the last ``size`` bytes of a text file, or all of a smaller one, without reading the rest.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - size))
        return file.read(size).decode(errors="replace")


def known_fields(kind: type[DataclassInstance], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``kind`` has fields for: a newer version of this library may have written more."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in record.items() if name in names}


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Write ``value`` as JSON, whole or not at all."""
    write_whole(path, _as_json(value, indent=1), durable=durable)


def write_record(path: Path, record: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write a JSON object with a line for each of its values: of thousands in a list, one line is as easy to read."""
    lines = [f" {_as_text(name)}: {_as_text(value)}" for name, value in record.items()]
    write_whole(path, _as_bytes("{\n" + ",\n".join(lines) + "\n}\n"), durable=durable)


def read_json(path: Path) -> Any | None:
    """Return the JSON value in ``path``, or None where there is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return json.loads(text)


def append_json_line(path: Path, value: Any, *, durable: bool = True) -> None:
    """Append one line of JSON in a single write, so that writers on one node never mix their lines.

    Raises:
        OSError: If there is no room for the whole line; what was written of it is no line for a reader.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        cut_short = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        line = (b"\n" if cut_short else b"") + _as_json(value)
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json_lines(path: Path) -> list[Any]:
    """Return the values of a file of JSON lines; a line cut short by a crash is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    complete, _, _cut_short = text.rpartition("\n")
    values = []
    for line in complete.split("\n"):  # not splitlines: a text may hold U+2028
        with contextlib.suppress(json.JSONDecodeError):
            values.append(json.loads(line))
    return values


def _as_json(value: Any, *, indent: int | None = None) -> bytes:
    """Return JSON that people can read; half a surrogate pair, which UTF-8 has not, is escaped as JSON does."""
    return _as_bytes(_as_text(value, indent=indent) + "\n")


def _as_text(value: Any, *, indent: int | None = None) -> str:
    return _PLAIN.encode(value) if indent is None else json.dumps(value, indent=indent, ensure_ascii=False)


_PLAIN = json.JSONEncoder(ensure_ascii=False)


def _as_bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
