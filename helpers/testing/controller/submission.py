"""Make jobs of the options and the script of a submission."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.testing.controller.demand import read_demand
from helpers.testing.controller.dependencies import read_dependencies
from helpers.testing.controller.export import exported_to_job
from helpers.testing.controller.jobs import Job
from helpers.testing.controller.notation.arrays import read_array
from helpers.testing.controller.notation.options import UsageError
from helpers.testing.controller.notation.times import read_begin
from helpers.testing.controller.refusal import Refusal

if TYPE_CHECKING:
    from helpers.testing.controller.cluster import Cluster

_DEFAULT_SIGNAL_S = 60


def make_jobs(
    cluster: Cluster, options: dict[str, str], script: str, command: str, rest: list[str], message: dict[str, Any]
) -> list[Job]:
    """Return the job that a submission makes, or the elements of its array.

    Raises:
        UsageError: For a value that is none.
        Refusal: For what this cluster does not take.
    """
    demand = read_demand(cluster, options)
    sent = _read_signal(options.get("signal"))
    dependencies = read_dependencies(options["dependency"]) if options.get("dependency") else []
    folder = os.path.join(message["folder"], options.get("chdir", ""))
    name = options.get("job-name") or ("wrap" if "wrap" in options else os.path.basename(command))
    if command == "(null)" and "wrap" not in options and "job-name" not in options:
        name = "sbatch"
    if dependencies is None:
        raise Refusal("Job dependency problem")
    if "reservation" in options:
        raise Refusal("Requested reservation is invalid")
    array = read_array(options["array"], max_size=cluster.settings.max_array_size) if "array" in options else ([], 0)
    if array is None:
        raise Refusal("Invalid job array specification")
    tasks, throttle = array
    now = time.time()
    number = cluster.next_id if "test-only" in options else cluster.take_id()
    job = Job(
        number=number,
        name=name,
        options=options,
        demand=demand,
        script=script,
        command=command,
        arguments=rest[1:],
        folder=folder.rstrip("/") or "/",
        environment=exported_to_job(options, message["environment"]),
        user=getpass.getuser(),
        account=options.get("account", getpass.getuser()),
        submitted=now,
        begin=_read_begin(options.get("begin"), now, cluster.settings.seconds_per_minute),
        throttle=throttle,
        task_ids=tasks,
        requeue="requeue" in options or ("no-requeue" not in options and cluster.settings.allows_requeue),
        held="JobHeldUser" if "hold" in options else "",
        kills_invalid_dependency=options.get("kill-on-invalid-dep") == "yes",
        dependencies=dependencies,
        signal=sent,
        comment=options.get("comment", ""),
    )
    if not tasks:
        return [job]
    return [
        replace(job, array=number, task=task, dependencies=[replace(entry) for entry in dependencies],
                steps=[], ended_steps=[], sessions=set(), history=[], gpus={}, nodes=[])
        for task in tasks
    ]  # fmt: skip


def _read_signal(text: str | None) -> tuple[str, int, bool] | None:
    """Return the signal's name, the seconds before the limit, and whether it is for the batch shell."""
    if not text:
        return None
    match = re.fullmatch(r"(?:([RB]+):)?(\w+)(?:@(\d+))?", text)
    name = "" if match is None else match[2].removeprefix("SIG")
    known = name.isdecimal() or hasattr(signal, f"SIG{name}")
    if match is None or not known:
        raise UsageError("sbatch: error: Invalid --signal specification\n")
    name = signal.Signals(int(name)).name if name.isdecimal() else f"SIG{name}"
    return name, int(match[3] or _DEFAULT_SIGNAL_S), "B" in (match[1] or "")


def _read_begin(text: str | None, now: float, seconds_per_minute: float) -> float:
    if not text:
        return 0.0
    begin = read_begin(text, now, seconds_per_minute)
    if begin is None:
        raise UsageError(f"sbatch: error: Invalid time specification (pos=0): {shlex.quote(text)}\n")
    return begin
