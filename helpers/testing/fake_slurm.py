"""A Slurm cluster without a Slurm: its commands on PATH, its jobs as processes of this machine."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from helpers.testing.controller_process import ControllerProcess
from helpers.testing.settings import Settings
from helpers.testing.slurm_job import FINAL_STATES, SlurmJob

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.submission.jobs.job import Job

_PATIENCE_S = 30.0
_POLL_S = 0.02


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
        self._controller: ControllerProcess | None = None

    @property
    def folder(self) -> Path:
        """The folder that holds its state, and goes with it.

        Raises:
            RuntimeError: If it does not run.
        """
        return self._running.folder

    @property
    def _running(self) -> ControllerProcess:
        if self._controller is None:
            raise RuntimeError("The fake Slurm does not run. Use it inside: with FakeSlurm() as slurm:")
        return self._controller

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
        self._controller = ControllerProcess(self.settings)

    def stop(self) -> None:
        """End all jobs and remove everything.

        Raises:
            RuntimeError: With its log, if it had ended before.
        """
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.stop()

    def preempt(self, job: Job[Any] | str | int, *, grace_s: float = 0) -> None:
        """Take a running job's place, as a job of a higher partition would.

        Args:
            job: Which.
            grace_s: Seconds that its ranks have between SIGTERM and the end; 0: what ``kill_wait_s`` gives.
        """
        self._running.order("preempt", job=_id(job), grace_s=grace_s)

    def lose_node(self, job: Job[Any] | str | int) -> str:
        """Let the nodes of a running job go down, with all that runs on them; return the first one's name."""
        nodes = self._running.order("lose_node", job=_id(job))["nodes"]
        return str(nodes[0])

    def restore_node(self, node: str) -> None:
        """Let a node take jobs again."""
        self._running.order("restore_node", node=node)

    def reach_time_limit(self, job: Job[Any] | str | int, *, warning_s: float = 1.0) -> None:
        """Let a running job come to its time limit: the last seconds before it begin now.

        A job that ends by it raises TimeLimitReached. One that resumes has been told another end when it
        began, and may call this a preemption; for that, give the cluster short minutes (``seconds_per_minute``).

        Args:
            job: Which.
            warning_s: Seconds between the signal that it has asked for (``--signal``), which comes now, and
                the limit.
        """
        self._running.order("reach_time_limit", job=_id(job), warning_s=warning_s)

    def run_out_of_memory(self, job: Job[Any] | str | int) -> None:
        """Kill a running job's ranks as the kernel does where memory is limited."""
        self._running.order("run_out_of_memory", job=_id(job))

    def forget(self, job: Job[Any] | str | int) -> None:
        """Let the queue forget a job that does not run; accounting still knows it, where there is any."""
        self._running.order("forget", job=_id(job))

    def hold_queue(self, *, reason: str = "Priority") -> Switch:
        """Start no job until ``release_queue``, or until the end of a ``with`` on what this returns.

        Args:
            reason: Slurm's word for why jobs wait.
        """
        self._running.order("hold_queue", held=True, reason=reason)
        return Switch(self.release_queue)

    def release_queue(self) -> None:
        """Start jobs again."""
        self._running.order("hold_queue", held=False, reason="Priority")

    def controller_down(self) -> Switch:
        """Answer no command until ``controller_up``, or until the end of a ``with`` on what this returns.

        Jobs that run go on; accounting still answers.
        """
        self._running.order("silence", silent=True)
        return Switch(self.controller_up)

    def controller_up(self) -> None:
        """Answer again."""
        self._running.order("silence", silent=False)

    def job(self, job: Job[Any] | str | int) -> SlurmJob:
        """Return what is known of one job.

        Raises:
            LookupError: If there is none of that id.
        """
        return SlurmJob(**self._running.order("job", job=_id(job))["jobs"][0])

    def jobs(self) -> list[SlurmJob]:
        """Return all jobs, the elements of arrays one by one, in the order of their submission."""
        return [SlurmJob(**record) for record in self._running.order("jobs")["jobs"]]

    def calls(self, command: str) -> list[list[str]]:
        """Return the words with which ``sbatch``, ``squeue`` and so on have been called."""
        return [call["arguments"] for call in self._running.order("calls")["calls"] if call["program"] == command]

    def wait_for(self, job: Job[Any] | str | int, *states: str, timeout_s: float = _PATIENCE_S) -> SlurmJob:
        """Wait until a job is in one of these states; without any, until it has ended.

        Raises:
            TimeoutError: If that takes too long; it names the state.
        """
        wanted = states or FINAL_STATES
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


def _id(job: Job[Any] | str | int) -> str:
    return str(job) if isinstance(job, str | int) else job.id
