"""Speak to a debugger as an editor does, by the Debug Adapter Protocol: attach, set a breakpoint, go on."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

Message = dict[str, Any]


class DebugClient:
    """The one connection to a debugger that listens on this machine, or soon will.

    The protocol: https://microsoft.github.io/debug-adapter-protocol/specification.

    Args:
        port: Where it listens.
        timeout_s: How long the debugger, an answer or an event is waited for.
    """

    def __init__(self, port: int, *, timeout_s: float) -> None:
        self._socket = _connect(port, timeout_s)
        self._answers = self._socket.makefile("rb")
        self._sent = 0
        self._events: list[Message] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._answers.close()
        self._socket.close()

    def attach(self, breakpoint_in: Path, line: int) -> None:
        """Attach with one breakpoint, and let the program begin."""
        self._ask("initialize", clientID="test", adapterID="debugpy", pathFormat="path", linesStartAt1=True)
        attached = self._send("attach", justMyCode=True)
        self._event("initialized")
        self._ask("setBreakpoints", source={"path": str(breakpoint_in)}, breakpoints=[{"line": line}])
        self._ask("configurationDone")
        self._answer(attached)

    def stopped_at(self) -> tuple[str, str, int]:
        """Wait until the program stops at a breakpoint; return function, file and line."""
        thread = self._event("stopped")["threadId"]
        (frame, *_) = self._ask("stackTrace", threadId=thread, levels=1)["stackFrames"]
        return frame["name"], frame["source"]["path"], frame["line"]

    def detach(self) -> None:
        """Let the program go on without a debugger."""
        self._ask("disconnect", terminateDebuggee=False)

    def _ask(self, command: str, **arguments: object) -> Message:
        return self._answer(self._send(command, **arguments))

    def _send(self, command: str, **arguments: object) -> int:
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(request).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._sent

    def _answer(self, number: int) -> Message:
        answer = self._read_until(lambda message: message.get("request_seq") == number)
        assert answer["success"], answer
        return dict(answer.get("body") or {})

    def _event(self, name: str) -> Message:
        known = [event for event in self._events if event["event"] == name]
        event = known[0] if known else self._read_until(lambda message: message.get("event") == name)
        self._events.remove(event)
        return dict(event.get("body") or {})

    def _read_until(self, is_meant: Callable[[Message], bool]) -> Message:
        while True:
            message = self._read()
            if message["type"] == "event":
                self._events.append(message)
            if is_meant(message):
                return message

    def _read(self) -> Message:
        length = 0
        while header := self._answers.readline().strip():
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        if not length:
            raise ConnectionError("the debugger is gone")
        return dict(json.loads(self._answers.read(length)))


def _connect(port: int, timeout_s: float) -> socket.socket:
    """Return the first connection: a debugger that waits for its client takes a probe for it."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout_s)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
