"""Have bash read the lines of ``setup`` before they are queued: a quote that is never closed swallows what follows."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

_READS_WITHIN_S = 10


def check_syntax(setup: Sequence[str]) -> None:
    """Refuse set-up lines that are no complete bash, as a whole; what they name need not exist on this machine.

    Args:
        setup: The caller's lines; one may hold several, and a construct may go over several.

    Raises:
        InvalidRequest: Naming the line, in bash's words.
    """
    if not setup:  # most calls; each would start a shell for nothing
        return
    text = "\n".join(setup)
    lines = text.split("\n")
    words = _complaint(text)
    if not words:
        return
    raise InvalidRequest(
        f"bash cannot read this line of setup: {_culprit(lines, words)}\n  {words.partition(': ')[2]}",
        hint=f"until it says nothing: bash -n -c {shlex.quote(text)}",
    )


def _culprit(lines: Sequence[str], words: str) -> str:
    """Return the line that bash stumbles over; of a construct that never ends, the line that begins it."""
    number = words.partition(":")[0].removeprefix("line ")
    if "unexpected token" in words and "end of file" not in words and number.isdigit() and int(number) <= len(lines):
        return lines[int(number) - 1]
    complete = next(count for count in range(len(lines) - 1, -1, -1) if not _complaint("\n".join(lines[:count])))
    return lines[complete]


@functools.lru_cache(maxsize=64)
def _complaint(text: str) -> str:
    """Return what bash says of lines, such as ``line 2: syntax error near unexpected token `done'``; empty if nothing.

    It is asked once in a loop of submissions.
    ``shopt -s extglob`` among the lines allows patterns that are no syntax without it, and is not executed here.
    """
    return _said(text) and _said(text, "-O", "extglob")


def _said(text: str, *options: str) -> str:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}  # no BASH_ENV; the words in English
    try:
        done = subprocess.run(
            ["bash", "--norc", *options, "-n"],
            input=f"{text}\n".encode(errors="surrogateescape"),
            env=environment,
            capture_output=True,
            timeout=_READS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # nobody here can tell; the job's own shell will
        return ""
    said = done.stderr.decode(errors="replace").splitlines()
    return said[0].removeprefix("bash: ") if said else ""
