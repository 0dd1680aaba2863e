"""Read the note that git-lfs leaves in place of a file: what git has of it, and a clone that has not fetched it."""

from __future__ import annotations

import re

LARGEST = 1024
"""Bytes that such a note has at most."""

_POINTER = re.compile(rb"version https://git-lfs\S*\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n")


def read_pointer(data: bytes) -> tuple[int, str] | None:
    """Return size in bytes and sha256 of the file that is meant; None where ``data`` is no such note."""
    found = _POINTER.fullmatch(data) if len(data) <= LARGEST else None
    return None if found is None else (int(found[2]), found[1].decode())
