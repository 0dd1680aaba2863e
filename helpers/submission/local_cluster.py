"""Run on this machine, in processes of their own that outlive the caller."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.pointer import point_to_run
from helpers.runtime.status import State
from helpers.submission.login_node import check_login_node
from helpers.submission.script import local_script
from helpers.submission.slurm_queue import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from helpers.runtime.run_folder import RunFolder
    from helpers.submission.request import Request
    from helpers.submission.resources import Resources

_PREFIX = "local-"


class LocalCluster:
    """This machine."""

    name = "local"

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
        requeue: bool,  # noqa: ARG002 -- the supervisor goes on by itself
        is_array: bool = False,
    ) -> str:
        """Return the script that begins each attempt."""
        return local_script(run, python=sys.executable, setup=setup, is_array=is_array)

    def estimate_start(self, script: str) -> str:  # noqa: ARG002 -- whatever it is
        """Say nothing: it would start at once."""
        return ""

    def queue(self, run: RunFolder, *, after: str | None = None) -> str:  # noqa: ARG002 -- the job itself waits
        """Start the script in a session of its own; the job's id is its process id."""
        return _start(run, ["bash", str(run.script)])

    def queue_array(
        self,
        run: RunFolder,
        count: int,
        max_running: int | None,  # noqa: ARG002 -- the description has it
        *,
        after: str | None = None,  # noqa: ARG002 -- each element waits by itself
    ) -> list[tuple[str, int]]:
        """Start one process that starts the elements, a few at a time."""
        command = [sys.executable, "-P", "-m", "helpers.runtime.local_array"]
        return [(_start(run, command, HELPERS_ARRAY=str(run.path)), count)]

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Say which of the processes still run; one that has ended has written its status before."""
        running = Observation(state=State.RUNNING, word="RUNNING")
        return {job_id: running for job_id in job_ids if _is_running(job_id)}

    def cancel(self, run: RunFolder, job_id: str) -> None:  # noqa: ARG002 -- the mark lies in the run folder
        """Ask the supervisor to stop; it gives a Checkpointer the time to save.

        It looks for the mark, so that no signal is lost, or ends the script, before it listens.
        """
        run.cancel_mark.touch()


def _start(run: RunFolder, command: list[str], **variables: str) -> str:
    with run.batch_log.open("ab") as log:
        process = subprocess.Popen(
            command,
            env={**_environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _children[process.pid] = process
    job_id = f"{_PREFIX}{process.pid}"
    point_to_run(run, "local", job_id)
    return job_id


def _environment() -> dict[str, str]:
    """Return the run's environment: inside a job it sees that job's GPUs and no others."""
    name = "CUDA_VISIBLE_DEVICES"
    gpus = {name: os.environ[name]} if name in os.environ else {}
    return {**without_scheduler_variables(os.environ), **gpus}


_children: dict[int, subprocess.Popen[bytes]] = {}
"""The processes that this one has started, kept to be waited for: a child that is not waited for stays a zombie."""


def _pid(job_id: str) -> int:
    return int(job_id.removeprefix(_PREFIX).partition("_")[0])


def _is_running(job_id: str) -> bool:
    """Say whether the process is there and is ours: process ids are given again."""
    import psutil

    pid = _pid(job_id)
    if pid in _children and _children[pid].poll() is not None:
        return False
    try:
        process = psutil.Process(pid)
        environment = process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except psutil.Error:
        return False
    return environment.get("HELPERS_LOCAL_ID", job_id) == job_id and _looks_like_ours(process)


def _looks_like_ours(process: object) -> bool:
    import psutil

    try:
        command = " ".join(process.cmdline())  # type: ignore[attr-defined]
    except psutil.Error:
        return False
    return "submission.sh" in command or "helpers.runtime.local" in command


def _check_gpus(resources: Resources) -> None:
    here = count_gpus()
    if resources.nodes > 1:
        raise InvalidRequest(
            f"This machine is one node; the call asks for {resources.nodes}.",
            hint="leave nodes= out to run here",
        )
    if resources.gpus.count > here:
        processes = f", processes={resources.processes}" if resources.processes > 1 else ""
        raise InvalidRequest(
            f"This machine has {here} GPUs; the call asks for {resources.gpus.count}, and there is no Slurm to ask.",
            hint=f"submit(…{processes})  # gpus left out: runs here on the CPU"
            if here == 0
            else f"submit(…, gpus={here})",
        )


def count_gpus() -> int:
    """Return how many NVIDIA GPUs this process may use: ``CUDA_VISIBLE_DEVICES`` counts, where it is set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip() and name.strip() != "NoDevFiles"])
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
