"""Run on this machine, in processes of their own that outlive the caller."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.current import LOCAL_ID_VARIABLE
from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.gpus.queue import GpuQueue, leases_folder
from helpers.runtime.gpus.visible import ALLOCATION, VISIBLE, usable_gpus
from helpers.runtime.local.array import ARRAY_VARIABLE, ELEMENT_VARIABLE
from helpers.runtime.run.pointer import point_to_run
from helpers.runtime.run.status import State
from helpers.submission.clusters.login_node import check_login_node
from helpers.submission.clusters.script import local_script
from helpers.submission.clusters.slurm_queue import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psutil

    from helpers.runtime.gpus.ticket import Ticket
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.resources.request import Request
    from helpers.submission.resources.resources import Resources
    from helpers.submission.surroundings import Surroundings

_PREFIX = "local-"


class LocalCluster:
    """This machine."""

    name = "local"
    answer_serves_s = 0.0

    @property
    def place(self) -> str:
        """This machine's host name."""
        return os.uname().nodename

    def settle(self, request: Request) -> Resources:
        """Leave open what is open: this machine's processes share it.

        Raises:
            InvalidRequest: If this is a cluster's login node, this machine has fewer GPUs than asked for, or the
                call asks for several nodes.
        """
        resources = request.settle()
        check_login_node(resources)
        _check_gpus(resources)
        return resources

    def script(
        self,
        run: RunFolder,
        resources: Resources,  # noqa: ARG002 -- the description has them
        *,
        job_name: str,  # noqa: ARG002 -- the process list shows the run folder
        setup: Sequence[str],
        surroundings: Surroundings,
        requeue: bool,  # noqa: ARG002 -- the supervisor goes on by itself
        is_array: bool = False,
    ) -> str:
        """Return the script that begins each attempt."""
        return local_script(run, surroundings=surroundings, setup=setup, is_array=is_array)

    def estimate_start(self, script: str) -> str:  # noqa: ARG002 -- whatever it is
        """Say nothing: it would start at once."""
        return ""

    def queue(self, run: RunFolder, *, after: str | None = None) -> str:  # noqa: ARG002 -- the job itself waits
        """Start the script in a session of its own; the job's id is its process id."""
        return _start(run, ["bash", str(run.script)])

    def queue_element(self, run: RunFolder, array: RunFolder) -> str:
        """Start one element of an array by itself, with the array's script."""
        script = f"export {LOCAL_ID_VARIABLE}={_PREFIX}$$; exec bash {shlex.quote(str(array.script))}"
        return _start(run, ["bash", "-c", script], **{ELEMENT_VARIABLE: run.path.name})

    def queue_array(
        self,
        run: RunFolder,
        count: int,
        max_running: int | None,  # noqa: ARG002 -- the description has it
        *,
        after: str | None = None,  # noqa: ARG002 -- each element waits by itself
    ) -> list[tuple[str, int]]:
        """Start one process that starts the elements, a few at a time."""
        command = [sys.executable, "-P", "-m", "helpers.runtime.local.array"]
        return [(_start(run, command, **{ARRAY_VARIABLE: str(run.path)}), count)]

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Say which of the processes still run, and why one waits; one that has ended has written its status before."""
        alive = [job_id for job_id in job_ids if _is_running(job_id)]
        waiting = {ticket.job: ticket.reason for ticket in _tickets() if not ticket.held} if alive else {}
        running = Observation(state=State.RUNNING, word="RUNNING")
        return {
            job_id: Observation(state=State.PENDING, word="PENDING", reason=waiting[job_id])
            if job_id in waiting
            else running
            for job_id in alive
        }

    def cancel(self, runs: Mapping[str, RunFolder]) -> None:
        """Ask the supervisors to stop; each gives a Checkpointer the time to save.

        It looks for the mark, so that no signal is lost, or ends the script, before it listens.
        """
        for run in runs.values():
            run.cancel_mark.touch()


def _start(run: RunFolder, command: list[str], **variables: str) -> str:
    """Start a process that outlives this one, and make the run findable by its id.

    No ``subprocess.Popen``: it warns, when this process ends, of each child that still runs, which is what is wanted.
    """
    _reap()
    log = os.open(run.batch_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            {**_environment(), **variables},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them; a program expects them
        )
    finally:
        os.close(log)
    _children.add(pid)
    job_id = f"{_PREFIX}{pid}"
    point_to_run(run, "local", job_id)
    return job_id


def _environment() -> dict[str, str]:
    """Return the run's environment: inside a job it sees that job's GPUs and no others."""
    gpus = {VISIBLE: os.environ[VISIBLE]} if VISIBLE in os.environ else {}
    scope = {ALLOCATION: os.environ["SLURM_JOB_ID"]} if "SLURM_JOB_ID" in os.environ else {}
    return {**without_scheduler_variables(os.environ), **gpus, **scope}


def _tickets() -> list[Ticket]:
    """Return who waits for GPUs and who has some; none where the queue cannot be read."""
    try:
        return GpuQueue(leases_folder(os.environ)).look()
    except (InvalidRequest, OSError):
        return []


_children: set[int] = set()
"""The processes that this one has started and not yet waited for: a child that is not waited for stays a zombie."""


def _reap() -> None:
    """Wait for those of the children that have ended."""
    for pid in list(_children):
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # somebody else in this process has waited for it; or this one is a fork
            ended = True
        if ended:
            _children.discard(pid)


def _pid(job_id: str) -> int:
    return int(job_id.removeprefix(_PREFIX).partition("_")[0])


def _is_running(job_id: str) -> bool:
    """Say whether the process is there and is ours: process ids are given again."""
    import psutil

    pid = _pid(job_id)
    _reap()
    try:
        process = psutil.Process(pid)
        environment = process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
        return environment.get(LOCAL_ID_VARIABLE, job_id) == job_id and _is_ours(process)
    except psutil.Error:
        return False


def _is_ours(process: psutil.Process) -> bool:
    command = " ".join(process.cmdline())
    return "submission.sh" in command or "helpers.runtime.local." in command


def _check_gpus(resources: Resources) -> None:
    if resources.nodes > 1:
        raise InvalidRequest(
            f"This machine is one node; the call asks for {resources.nodes}.",
            hint="leave nodes= out to run here",
        )
    if resources.gpus.count == 0:
        return
    there = usable_gpus(os.environ)
    here = len([gpu for gpu in there if not gpu.is_slice]) or min(1, len(there))
    if resources.gpus.count > 1 and here < resources.gpus.count <= len(there):
        raise InvalidRequest(
            f"The GPUs of this machine are cut into slices, and a process sees one; the call asks for "
            f"{resources.gpus.count}.",
            hint="submit_array(…, gpus=1)  # a job for each slice",
        )
    if resources.gpus.count > here:
        processes = f", processes={resources.processes}" if resources.processes > 1 else ""
        raise InvalidRequest(
            f"This machine has {here} GPUs; the call asks for {resources.gpus.count}, and there is no Slurm to ask.",
            hint=f"submit(…{processes})  # gpus left out: runs here on the CPU"
            if here == 0
            else f"submit(…, gpus={here})",
        )
