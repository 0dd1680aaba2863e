"""Start processes, know when they end, and leave none behind."""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class Processes:
    """The children of this process, by id."""

    def __init__(self) -> None:
        self._ended: dict[int, Callable[[int], None]] = {}
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        if sys.platform == "linux":  # what a job's process leaves behind becomes ours, and is found
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def start(
        self,
        command: list[str],
        *,
        folder: str,
        environment: dict[str, str],
        streams: tuple[int, int, int],
        when_ended: Callable[[int], None],
    ) -> int:
        """Start a process as the leader of a session, and return its id.

        Raises:
            OSError: If there is no such program.
        """
        process = subprocess.Popen(
            command, cwd=folder, env=environment, start_new_session=True,
            stdin=streams[0], stdout=streams[1], stderr=streams[2],
        )  # fmt: skip
        self._running[process.pid] = process
        self._ended[process.pid] = when_ended
        return process.pid

    def reap(self) -> None:
        """Learn of those that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            process = self._running.pop(pid, None)
            if process is not None:
                process.returncode = status
                self._ended.pop(pid)(status)

    def kill_leftovers(self, sessions: Iterable[int], job: str | None) -> None:
        """Kill what a job's processes have left: in their sessions, and orphans that bear the job's id."""
        for session in sessions:
            send_group(session, signal.SIGKILL)
        for pid in self._orphans():
            if job is None or _belongs_to(pid, job):
                send(pid, signal.SIGKILL)

    def end_all(self) -> None:
        """Kill every process that was started here, and all that they started."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            for pid in list(self._running):
                send_group(pid, signal.SIGKILL)
                send(pid, signal.SIGKILL)
            self.kill_leftovers([], None)
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                time.sleep(0.005)
            elif (process := self._running.pop(pid, None)) is not None:
                process.returncode = status

    def _orphans(self) -> list[int]:
        try:
            text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        except OSError:
            return []
        return [int(pid) for pid in text.split() if int(pid) not in self._running]


def _belongs_to(pid: int, job: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"SLURM_JOB_ID={job}".encode() in environment.split(b"\0")


def send(pid: int, number: int) -> None:
    """Send a signal to a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def send_group(pid: int, number: int) -> None:
    """Send a signal to a process group, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


class Timers:
    """What is to be done later."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do ``action`` in so many seconds."""
        heapq.heappush(self._heap, (time.monotonic() + max(0.0, seconds), next(self._count), action))

    def wait_s(self) -> float:
        """Return for how long there is nothing to do."""
        return max(0.0, self._heap[0][0] - time.monotonic()) if self._heap else 3600.0

    def run_due(self) -> None:
        """Do what is due."""
        while self._heap and self._heap[0][0] <= time.monotonic():
            heapq.heappop(self._heap)[2]()
