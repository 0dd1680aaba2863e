"""Show how far a copy is: a bar where somebody looks on, a line now and then in a log."""

from __future__ import annotations

import sys
import threading
import time

_BAR_S = 0.2
_LINE_S = 30
_WIDTH = 24  # characters


class Progress:
    """How far a copy is, on stderr.

    Args:
        what: What is done, such as ``"staging images"``.
        total: In bytes.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._begun = self._last = time.monotonic()
        self._is_seen = sys.stderr.isatty()
        if not self._is_seen:
            self._say(f"helpers: {what}: {shown(total)}\n")

    def add(self, count: int) -> None:
        """Count bytes that have been copied, from any thread."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._last < (_BAR_S if self._is_seen else _LINE_S):
                return
            self._last = now
            self._say(self._bar() if self._is_seen else f"helpers: {self._what}: {self._numbers()}\n")

    def end(self, files: int) -> None:
        """Say that all is done."""
        seconds = time.monotonic() - self._begun
        start = "\r\x1b[K" if self._is_seen else ""
        self._say(f"{start}helpers: {self._what}: {files} files, {shown(self._done)}, done in {seconds:.1f} s\n")

    def _bar(self) -> str:
        filled = round(_WIDTH * self._share())
        return f"\r\x1b[Khelpers: {self._what} [{'#' * filled}{' ' * (_WIDTH - filled)}] {self._numbers()}"

    def _numbers(self) -> str:
        rate = self._done / max(time.monotonic() - self._begun, 1e-3)
        return f"{self._share():.0%}, {shown(self._done)} of {shown(self._total)}, {shown(rate)}/s"

    def _share(self) -> float:
        return self._done / self._total if self._total else 1.0

    @staticmethod
    def _say(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def shown(size: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 -- units of a thousand
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
