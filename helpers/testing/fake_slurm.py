"""A Slurm cluster without a Slurm: its commands on PATH, its jobs as processes of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from helpers.testing import shim
from helpers.testing.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.submission.job import Job

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo", "srun")
_PATIENCE_S = 30.0
_POLL_S = 0.02
_FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY")


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """What the fake knows of one job, or of one element of an array.

    Args:
        id: As people write it: ``4711``, ``4711_3``.
        number: Its own number.
        name: As the queue shows it.
        state: In Slurm's words.
        reason: Why it waits or how it ended, in Slurm's words.
        nodes: Slurm's node list; empty where it has none.
        partition: Where it waits or runs.
        options: The sbatch options in force, by their long names.
        script: The batch script.
        folder: Where it runs.
        restarts: How many times it has been requeued.
        exit_code: Of its batch script.
        environment: What was exported to it.
    """

    id: str
    number: int
    name: str
    state: str
    reason: str
    nodes: str
    partition: str
    options: dict[str, str]
    script: str
    folder: str
    restarts: int
    exit_code: int
    environment: dict[str, str]


class Switch:
    """What has been switched over, and is switched back at the end of a ``with``."""

    def __init__(self, back: Callable[[], None]) -> None:
        self._back = back

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._back()


class FakeSlurm:
    """A cluster that runs while it is entered; see ``docs/reference/testing.md``.

    Its commands stand for Slurm's in every process that has ``environment``. The fixture ``fake_slurm`` gives
    one whose environment is that of the test.

    Args:
        settings: What it is made of.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._folder: Path | None = None
        self._controller: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """The folder that holds its state, and goes with it.

        Raises:
            RuntimeError: If it does not run.
        """
        if self._folder is None:
            raise RuntimeError("The fake Slurm does not run. Use it inside: with FakeSlurm() as slurm:")
        return self._folder

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to be a client of this cluster."""
        path = os.pathsep.join([str(self.folder / "bin"), os.environ.get("PATH", os.defpath)])
        return {"PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf"), "HELPERS_ALLOW_CPU": "1"}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; its commands answer from now on."""
        self._folder = folder = Path(tempfile.mkdtemp(prefix="fake-slurm-"))
        (folder / "bin").mkdir()
        (folder / "settings.json").write_text(json.dumps(self.settings.as_json()), encoding="utf-8")
        (folder / "slurm.conf").write_text(f"# of helpers.testing\nClusterName={self.settings.cluster}\n")
        python, script, address = sys.executable, str(Path(shim.__file__)), str(folder / "socket")
        for name in COMMANDS:
            file = folder / "bin" / name
            words = shlex.join([python, "-I", "-S", script, address, name])
            file.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
            file.chmod(0o755)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(address)
                listener.listen(128)
                self._controller = self._start_controller(listener)
        except BaseException:
            self.stop()
            raise

    def _start_controller(self, listener: socket.socket) -> subprocess.Popen[bytes]:
        """Start the process that answers; commands that come before it is there wait for it."""
        import helpers

        number = listener.fileno()
        parent = str(Path(helpers.__file__).parent.parent)
        path = os.pathsep.join([parent, *filter(None, [os.environ.get("PYTHONPATH")])])
        with (self.folder / "controller.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "helpers.testing.controller.server", str(number), str(self.folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, pass_fds=[number],
                env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """End all jobs and remove everything; also where it has been started only in part.

        Raises:
            RuntimeError: With its log, if it had ended before.
        """
        controller, folder = self._controller, self._folder
        self._controller = self._folder = None
        died = controller is not None and controller.poll() is not None
        if controller is not None:
            with contextlib.suppress(BrokenPipeError):
                if controller.stdin is not None:
                    controller.stdin.write(b".")  # its end without a word would mean that we have been killed
                    controller.stdin.close()
            try:
                controller.wait(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                controller.kill()
                controller.wait()
                died = True
        if folder is None:
            return
        log = folder / "controller.log"
        words = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if died:
            _kill_clients(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if died or "Traceback" in words:
            raise RuntimeError(f"The fake Slurm's controller had a fault:\n{words[-4000:]}")

    def preempt(self, job: Job[Any] | str | int, *, grace_s: float = 0) -> None:
        """Take a running job's place, as a job of a higher partition would.

        Args:
            job: Which.
            grace_s: Seconds that its ranks have between SIGTERM and the end; 0: what ``kill_wait_s`` gives.
        """
        self._order("preempt", job=_id(job), grace_s=grace_s)

    def lose_node(self, job: Job[Any] | str | int) -> str:
        """Let the nodes of a running job go down, with all that runs on them; return the first one's name."""
        nodes = self._order("lose_node", job=_id(job))["nodes"]
        return str(nodes[0])

    def restore_node(self, node: str) -> None:
        """Let a node take jobs again."""
        self._order("restore_node", node=node)

    def reach_time_limit(self, job: Job[Any] | str | int, *, warning_s: float = 1.0) -> None:
        """Let a running job come to its time limit: the last seconds before it begin now.

        A job that ends by it raises TimeLimitReached. One that resumes has been told another end when it
        began, and may call this a preemption; for that, give the cluster short minutes (``seconds_per_minute``).

        Args:
            job: Which.
            warning_s: Seconds between the signal that it has asked for (``--signal``), which comes now, and
                the limit.
        """
        self._order("reach_time_limit", job=_id(job), warning_s=warning_s)

    def run_out_of_memory(self, job: Job[Any] | str | int) -> None:
        """Kill a running job's ranks as the kernel does where memory is limited."""
        self._order("run_out_of_memory", job=_id(job))

    def forget(self, job: Job[Any] | str | int) -> None:
        """Let the queue forget a job that does not run; accounting still knows it, where there is any."""
        self._order("forget", job=_id(job))

    def hold_queue(self, *, reason: str = "Priority") -> Switch:
        """Start no job until ``release_queue``, or until the end of a ``with`` on what this returns.

        Args:
            reason: Slurm's word for why jobs wait.
        """
        self._order("hold_queue", held=True, reason=reason)
        return Switch(self.release_queue)

    def release_queue(self) -> None:
        """Start jobs again."""
        self._order("hold_queue", held=False, reason="Priority")

    def controller_down(self) -> Switch:
        """Answer no command until ``controller_up``, or until the end of a ``with`` on what this returns.

        Jobs that run go on; accounting still answers.
        """
        self._order("silence", silent=True)
        return Switch(self.controller_up)

    def controller_up(self) -> None:
        """Answer again."""
        self._order("silence", silent=False)

    def job(self, job: Job[Any] | str | int) -> SlurmJob:
        """Return what is known of one job.

        Raises:
            LookupError: If there is none of that id.
        """
        return SlurmJob(**self._order("job", job=_id(job))["jobs"][0])

    def jobs(self) -> list[SlurmJob]:
        """Return all jobs, the elements of arrays one by one, in the order of their submission."""
        return [SlurmJob(**record) for record in self._order("jobs")["jobs"]]

    def calls(self, command: str) -> list[list[str]]:
        """Return the words with which ``sbatch``, ``squeue`` and so on have been called."""
        return [call["arguments"] for call in self._order("calls")["calls"] if call["program"] == command]

    def wait_for(self, job: Job[Any] | str | int, *states: str, timeout_s: float = _PATIENCE_S) -> SlurmJob:
        """Wait until a job is in one of these states; without any, until it has ended.

        Raises:
            TimeoutError: If that takes too long; it names the state.
        """
        wanted = states or _FINAL
        return self._wait(lambda: self.job(job), lambda seen: seen.state in wanted, f"{wanted}", timeout_s)

    def wait_until_called(self, job: Job[Any], *, timeout_s: float = _PATIENCE_S) -> None:
        """Wait until every rank of the newest attempt has called the function: from then on it can be stopped.

        Raises:
            TimeoutError: If that takes too long; it names the state.
        """
        begun = len(list(job.folder.glob("attempts/*")))
        attempt = job.folder / "attempts" / str(max(0, begun - 1))
        ranks = job.description.processes

        def is_called(_: SlurmJob) -> bool:
            return len(list(attempt.glob("started-*"))) >= ranks

        self._wait(lambda: self.job(job), is_called, "calling its function", timeout_s)

    @staticmethod
    def _wait(
        look: Callable[[], SlurmJob], is_there: Callable[[SlurmJob], bool], what: str, timeout_s: float
    ) -> SlurmJob:
        deadline = time.monotonic() + timeout_s
        while True:
            seen = look()
            if is_there(seen):
                return seen
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {seen.id} is {seen.state} ({seen.reason}), not {what}, after {timeout_s:g} s")
            time.sleep(_POLL_S)

    def _order(self, order: str, **values: Any) -> dict[str, Any]:
        message: dict[str, object] = {
            "program": "control",
            "arguments": [order],
            "values": values,
            "folder": "",
            "environment": {},
        }
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(str(self.folder / "socket"))
                connection.sendall(shim.encode(message))
                answer: dict[str, Any] = shim.receive(connection)
        except ConnectionError as error:
            words = (self.folder / "controller.log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"The fake Slurm's controller has ended:\n{words[-4000:]}") from error
        if "error" in answer:
            raise LookupError(answer["error"])
        if answer.get("code"):
            raise RuntimeError(answer["stderr"])
        return answer


def _id(job: Job[Any] | str | int) -> str:
    return str(job) if isinstance(job, str | int) else job.id


def _kill_clients(folder: Path) -> None:
    """Kill the processes of jobs whose controller could not."""
    import psutil

    mark = str(folder / "slurm.conf")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            found = process.environ()
            if process.pid != os.getpid() and found.get("SLURM_JOB_ID") and mark in found.values():
                process.kill()
