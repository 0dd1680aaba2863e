"""The loop of the fake: answer the commands, wait for processes, do in time what is due.

One thread, so that nothing of the cluster's state needs a lock. It ends with the process that started it,
whose end closes the pipe on its standard input; every process of every job ends with it, and its folder goes.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.testing.controller import control, ending
from helpers.testing.controller.cluster import Cluster
from helpers.testing.controller.commands.sacct import sacct
from helpers.testing.controller.commands.sbatch import submit
from helpers.testing.controller.commands.scancel import scancel
from helpers.testing.controller.commands.scontrol import scontrol
from helpers.testing.controller.commands.sinfo import sinfo
from helpers.testing.controller.commands.squeue import squeue
from helpers.testing.controller.commands.srun import srun
from helpers.testing.controller.notation.exit_codes import shell_code
from helpers.testing.controller.notation.options import UsageError
from helpers.testing.controller.processes import Processes, Timers
from helpers.testing.controller.request import Request, read_message
from helpers.testing.controller.scheduler import schedule
from helpers.testing.settings import Settings
from helpers.testing.shim import silence

_SLOW_CLIENT_S = 10
_COMMANDS: dict[str, Callable[[Server, dict[str, Any]], dict[str, Any]]] = {
    "sacct": sacct,
    "scancel": scancel,
    "scontrol": scontrol,
    "sinfo": sinfo,
    "squeue": squeue,
}


class Server:
    """The whole of the fake.

    Args:
        listener: Where commands connect.
        settings: What the cluster is made of.
        folder: Where its files lie.
    """

    def __init__(self, listener: socket.socket, settings: Settings, folder: Path) -> None:
        self.cluster = Cluster(settings, folder)
        self.processes = Processes()
        self.timers = Timers()
        self._listener = listener
        self._has_changed = False
        self._is_over = False
        self.is_abandoned = False
        self._waiting: list[tuple[list[Any], Request]] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until the other end of standard input is closed."""
        reading, writing = socket.socketpair()
        for end in (reading, writing):
            end.setblocking(False)
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C in the terminal is for pytest, which then ends us
        self._selector.register(reading, selectors.EVENT_READ, lambda: self._drain(reading))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(sys.stdin, selectors.EVENT_READ, self._end)
        try:
            while not self._is_over:
                for key, _ in self._selector.select(self.timers.wait_s()):
                    key.data()
                self.processes.reap()
                self.timers.run_due()
                self.settle_now()
        finally:
            self.processes.end_all()

    def _end(self) -> None:
        """Leave the loop: on a word of the process that started this, or because it is gone."""
        self.is_abandoned = os.read(sys.stdin.fileno(), 1) == b""
        self._is_over = True

    def changed(self) -> None:
        """Let the scheduler look again."""
        self._has_changed = True

    def settle_now(self) -> None:
        """Schedule until nothing changes any more, and answer those that wait for an end."""
        while self._has_changed:
            self._has_changed = False
            schedule(self)
        for jobs, request in list(self._waiting):
            if all(job.is_final for job in jobs):
                self._waiting.remove((jobs, request))
                request.answer({"code": max(shell_code(job.wait_status) for job in jobs)})

    def set_node(self, name: str, state: str) -> None:
        """Take a node away, or give it back."""
        usable = state in {"resume", "idle", "undrain"}
        self.cluster.node_states[name] = "" if usable else "drain" if state.startswith("drain") else state
        if state in {"down", "fail"}:
            for job in self.cluster.active():
                if name in job.nodes:
                    ending.lose(self, job)
        self.changed()

    @staticmethod
    def _drain(reading: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while reading.recv(4096):
                pass

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(_SLOW_CLIENT_S)
        try:
            streams, message = read_message(connection)
        except (OSError, ValueError) as error:
            print(f"a command could not be read: {error!r}", flush=True)
            connection.close()
            return
        request = Request(connection, streams, message)
        self._serve(request)
        if request.is_answered:
            connection.close()
        else:
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._lost(request))

    def _lost(self, request: Request) -> None:
        """A client has gone, with its answer or without."""
        self._selector.unregister(request.connection)
        if not request.is_answered and request.when_gone is not None:
            request.when_gone()
        request.answer({})
        request.connection.close()

    def _serve(self, request: Request) -> None:
        program = request.program
        try:
            if program == "control":
                request.answer(control.obey(self, request.arguments[0], request.message["values"]))
                return
            self.cluster.calls.append({"program": program, "arguments": request.arguments})
            if self.cluster.is_silent and program != "sacct":
                text, code = silence(program, request.arguments)
                request.answer({"stderr": text, "code": code})
            elif program == "sbatch":
                self._submit(request)
            elif program == "srun":
                srun(self, request)
            else:
                request.answer(_COMMANDS[program](self, request.message))
        except UsageError as error:
            request.answer({"stderr": str(error), "code": error.code})
        except Exception:  # noqa: BLE001 -- a fault of the fake must not leave its client waiting
            traceback.print_exc()
            request.answer({"stderr": f"helpers.testing: the fake {program} has a fault:\n{traceback.format_exc()}",
                            "code": 70})  # fmt: skip

    def _submit(self, request: Request) -> None:
        jobs, answer = submit(self.cluster, request.message)
        self.cluster.jobs += jobs
        self.changed()
        if jobs and "wait" in jobs[0].options:
            request.write_error(str(answer["stdout"]))
            self._waiting.append((jobs, request))
        else:
            request.answer(answer)


def main() -> None:
    """Serve on the socket and in the folder that the command line names."""
    descriptor, folder = int(sys.argv[1]), Path(sys.argv[2])
    listener = socket.socket(fileno=descriptor)
    settings = Settings.from_json(json.loads((folder / "settings.json").read_text(encoding="utf-8")))
    server = Server(listener, settings, folder)
    server.run()
    if server.is_abandoned:  # nobody else is there to remove it
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
