"""End the traceback of a refused call at the call: what is in between is this library's, and says nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from types import TracebackType


class ShortTraceback:
    """Let an :class:`InvalidRequest` leave without the frames that it has come through; its cause stays."""

    def __enter__(self) -> None:
        """Begin what may be refused."""

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Cut the traceback; the caller's own frames are added as the error passes them."""
        if isinstance(error, InvalidRequest):
            error.__traceback__ = None
