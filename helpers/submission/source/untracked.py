"""Tell what code of a project git does not know yet, in the form of ``git diff``: new code is an edit, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.submission.source.project_files import ProjectFiles

NAMED = 50
"""So many are named in ``run.json``; how many more there are is said."""

DIFFERENCE_LIMIT_MB = 1
"""What they hold beyond this is in the snapshot alone: each run has a difference of its own."""

_MIB = 2**20


def named(untracked: list[str]) -> list[str]:
    """Return the names for the records, of many the first."""
    more = len(untracked) - NAMED
    return untracked if more <= 0 else [*untracked[:NAMED], f"… and {more} more"]


def difference_of(files: ProjectFiles) -> bytes:
    """Return the untracked code as ``git diff`` prints new files, so that ``git apply`` makes them."""
    left, parts = DIFFERENCE_LIMIT_MB * _MIB, []
    for name in files.untracked:
        left -= files.files[name][1]
        if left < 0:
            break
        parts.append(_new_file(Path(files.root, name), name))
    return b"".join(parts)


def _new_file(path: Path, name: str) -> bytes:
    try:
        content, mode = path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644
    except OSError:  # it went meanwhile
        return b""
    old, new = _quoted(f"a/{name}"), _quoted(f"b/{name}")
    head = b"diff --git %b %b\nnew file mode 100%o\n" % (old, new, mode)
    if not content:
        return head
    if b"\0" in content:
        return head + b"Binary files /dev/null and %b differ\n" % new
    lines = content.split(b"\n")
    end = b"" if lines[-1] == b"" else b"\\ No newline at end of file\n"
    lines = lines if end else lines[:-1]
    tab = b"\t" if b" " in new else b""  # as git does: where else does a name with a blank end
    count = b"1" if len(lines) == 1 else b"1,%d" % len(lines)
    body = b"".join(b"+%b\n" % line for line in lines)
    return head + b"--- /dev/null\n+++ %b%b\n@@ -0,0 +%b @@\n" % (new, tab, count) + body + end


def _quoted(name: str) -> bytes:
    """Quote a name as git does where it has to: with a quote, a backslash or a control character in it."""
    text = os.fsencode(name)
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return text
    escaped = (b"\\%03o" % byte if byte < 32 or byte in b'"\\' or byte > 126 else b"%c" % byte for byte in text)  # noqa: PLR2004 -- ASCII
    return b'"%b"' % b"".join(escaped)
