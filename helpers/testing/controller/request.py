"""One command that is being answered: what its shim has sent, and its standard streams."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable
from typing import Any

from helpers.testing.shim import encode

_STREAMS = 3


class Request:
    """One command that is being answered."""

    def __init__(self, connection: socket.socket, streams: list[int], message: dict[str, Any]) -> None:
        self.program: str = message["program"]
        self.arguments: list[str] = message["arguments"]
        self.folder: str = message["folder"]
        self.environment: dict[str, str] = message["environment"]
        self.message = message
        self.streams = streams
        self.connection = connection
        self.when_gone: Callable[[], None] | None = None
        self.is_answered = False

    def write_error(self, text: str) -> None:
        """Write to the command's standard error, now."""
        if self.streams:
            with contextlib.suppress(OSError):
                os.write(self.streams[2], text.encode())

    def answer(self, answer: dict[str, Any]) -> None:
        """End the command."""
        if self.is_answered:
            return
        self.is_answered = True
        with contextlib.suppress(OSError):
            self.connection.sendall(encode(answer))
        for stream in self.streams:
            os.close(stream)
        self.streams = []


def read_message(connection: socket.socket) -> tuple[list[int], dict[str, Any]]:
    """Return the streams that came with a message, and the message."""
    head, streams, _, _ = socket.recv_fds(connection, 4, _STREAMS)
    while 0 < len(head) < 4:  # noqa: PLR2004 -- the length of the length
        head += connection.recv(4 - len(head))
    size, body = int.from_bytes(head, "big"), bytearray()
    while len(body) < size:
        part = connection.recv(min(size - len(body), 1 << 20))
        if not part:
            raise ConnectionError("the client went away")
        body += part
    if not body:
        raise ConnectionError("an empty message")
    return list(streams), json.loads(bytes(body))
