"""Write files that are either whole or not there, also after a crash."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace ``path`` by ``data`` in one step that survives a crash.

    The bytes go to a temporary file in the same folder, reach the disk, and only then take the name; the
    folder is synchronised last, so that the name itself is durable.

    Args:
        path: The file to replace; its folder exists.
        data: The whole new content.
        mode: Permission bits before the umask.

    Raises:
        OSError: If the disk is full or the folder cannot be written; the old file is then untouched.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable (a rename is otherwise lost with the power)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any | None:
    """Return the JSON value in ``path``, or None where there is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return json.loads(text)


def append_json_line(path: Path, value: Any) -> None:
    """Append one line of JSON in a single write, so that writers on one node never mix their lines."""
    line = (json.dumps(value, ensure_ascii=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json_lines(path: Path) -> list[Any]:
    """Return the values of a file of JSON lines; a last line cut short by a crash is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    complete, _, _cut_short = text.rpartition("\n")
    return [json.loads(line) for line in complete.splitlines() if line]
