"""Compute a checksum beside reading or writing: both leave the interpreter free, so they run at once."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Self

import xxhash

if TYPE_CHECKING:
    from types import TracebackType

_WORTH_A_THREAD = 1 << 20  # bytes; less is hashed in less time than a thread takes to start


class Checksum:
    """The xxh3-128 of all that it is given, in order; use it in a ``with``.

    What is given must not change before :meth:`hexdigest` has returned.
    """

    def __init__(self) -> None:
        self._state = xxhash.xxh3_128()
        self._chunks: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._join()

    def update(self, chunk: memoryview) -> None:
        """Take the next bytes."""
        if self._thread is None and len(chunk) < _WORTH_A_THREAD:
            self._state.update(chunk)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="helpers-checksum", daemon=True)
            self._thread.start()
        self._chunks.put(chunk)

    def hexdigest(self) -> str:
        """Return the checksum of all bytes so far."""
        self._join()
        return self._state.hexdigest()

    def _work(self) -> None:
        while (chunk := self._chunks.get()) is not None:
            self._state.update(chunk)

    def _join(self) -> None:
        if self._thread is not None:
            self._chunks.put(None)
            self._thread.join()
            self._thread = None
