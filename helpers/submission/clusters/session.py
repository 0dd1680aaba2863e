"""Work out an interactive session on a node: ``srun --pty``, on the partition that is meant for it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.submission.inventory.cache import current_inventory
from helpers.submission.inventory.placement import place_session
from helpers.submission.resources.request import read_request
from helpers.submission.resources.settings import complete_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.submission.resources.resources import Resources

_USUAL_MIN = 60  # where nobody names a time: long enough to look at something, short enough to start soon


def plan_session(**asked: Any) -> Resources:
    """Return what a session asks for.

    Args:
        **asked: ``gpus``, ``cpus``, ``mem``, ``time``, ``partition``, ``account``, ``qos``, as for ``submit``.

    Raises:
        InvalidRequest: If no partition could ever run it.
        ClusterUnreachable: If the controller does not answer.
    """
    values = complete_settings(asked).values
    billed = {name: values[name] for name in ("account", "qos") if name in values}  # others are settings of jobs
    request = read_request(**(billed | asked), nodes=1, is_command=True)
    inventory = current_inventory(os.environ.get("SLURM_CONF"))
    fit = place_session(request, inventory)
    if request.time_min is None:
        time_min = min(_USUAL_MIN, fit.partition.max_time_min or _USUAL_MIN)
        request = replace(request, time_min=time_min, partition=fit.partition.name)
        fit = place_session(request, inventory)
    return fit.settle(request)


def session_command(resources: Resources, words: Sequence[str], *, name: str = "shell") -> list[str]:
    """Return the ``srun`` command of a session, for the words of a program, or for the user's own shell."""
    options = {
        "job-name": name,
        "partition": resources.partition,
        "account": resources.account,
        "qos": resources.qos,
        "nodes": 1,
        "ntasks": resources.processes,
        "cpus-per-task": resources.cpus,
        "mem": None if resources.mem_mb is None else f"{resources.mem_mb}M",
        "time": resources.time_min,
        "gpus-per-node": resources.gpus.per_node(1) if resources.gpus.count else None,
    }
    given = [f"--{option}={value}" for option, value in options.items() if value is not None]
    return ["srun", *given, "--pty", *(words or [os.environ.get("SHELL") or "/bin/bash", "-l"])]
