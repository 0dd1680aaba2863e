"""Do one piece of work at a time in a thread, and hand its end to whoever asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Background:
    """One piece of work at a time; a fork takes no part in it.

    Args:
        name: Of the threads, for whoever looks at them.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.ended = False
        """Whether a piece of work has ended and nobody has asked yet what became of it."""

    def start(self, work: Callable[[], object]) -> None:
        """Begin a piece of work; the one before must have been waited for."""
        if self._thread is not None:
            raise AssertionError("the work before has not been waited for")
        self._thread = threading.Thread(target=self._do, args=(work,), name=self._name, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the work, if there is any; its error is raised, in this thread and once."""
        if self._thread is None:
            return
        self._thread.join()
        error, self._thread, self._error, self.ended = self._error, None, None, False
        if error is not None:
            raise error

    def await_end(self, timeout_s: float | None = None) -> None:
        """Wait for the work and leave it to :meth:`finish` to tell what became of it."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _do(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 -- raised again where somebody waits for it
            self._error = error
        self.ended = True
