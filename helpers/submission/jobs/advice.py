"""Say what to do next: how much to ask for after too little memory or time, and which job to run again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import HelpersError
from helpers.runtime.files import read_json
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_status
from helpers.submission.inventory.cache import current_inventory
from helpers.submission.jobs.array_status import id_of
from helpers.submission.resources.amounts import duration_text, memory_text, parse_memory_mb

if TYPE_CHECKING:
    from helpers.runtime.run.description import Description
    from helpers.submission.inventory.inventory import Partition

_NEARLY_ALL = 0.95  # of a node's memory: asking for the rest would not help


def more_memory(given_mb: int | None, largest_mb: int | None) -> str:
    """Return what to ask for next: twice as much, but no more than a node has."""
    less = "fewer loader workers, smaller batches, data read in parts"
    if given_mb is None:
        return f'ask for more than the default of the cluster: mem="8G"; or {less}'
    if largest_mb is not None and given_mb > largest_mb * _NEARLY_ALL:
        return f"no node of its partition has more ({memory_text(largest_mb)}): {less}; or another partition"
    wanted_mb = given_mb * 2 if largest_mb is None else min(given_mb * 2, largest_mb)
    return f'ask for more: mem="{memory_text(wanted_mb)}"; or {less}'


def memory_given_mb(description: Description, folder: str) -> int | None:
    """Return the limit on each node, in MiB: what was asked for, else what Slurm told the job; None if unknown."""
    asked = description.resources.get("mem")
    if asked is not None:
        return parse_memory_mb(asked)
    with contextlib.suppress(OSError, ValueError):
        given = (read_json(RunFolder(Path(folder)).provenance) or {}).get("given", {})
        return int(given["SLURM_MEM_PER_NODE"]) if "SLURM_MEM_PER_NODE" in given else None
    return None


def largest_memory_mb(description: Description) -> int | None:
    """Return the most memory that a node of the job's partition has, in MiB; None where nobody can tell."""
    partition = _partition_of(description)
    return None if partition is None else max((group.mem_mb for group in partition.nodes), default=None)


def more_time(description: Description) -> str:
    """Return the time limit to ask for next, as a keyword; empty where the job had all that its partition allows."""
    partition = _partition_of(description)
    had = description.time_min or (partition.default_time_min if partition else None)
    longest = partition.max_time_min if partition else None
    if had is None:
        return 'time="8h"'
    if longest is not None and had >= longest:
        return ""
    return f'time="{duration_text(min(had * 2, longest or had * 2))}"'


def rerun_of_failed(description: Description) -> str:
    """Return what to do for a job that waited for another in vain: which of those failed, by its id."""
    failed = [run for folder in description.after if (run := RunFolder(Path(folder))) and _has_failed(run)]
    ids = " ".join(filter(None, map(id_of, failed[:1])))
    if not ids:
        return "helpers status shows how the jobs that it waits for have ended"
    return f"why: helpers show {ids}; once more: helpers rerun {ids}; then submit this one with after= the new one"


def _has_failed(run: RunFolder) -> bool:
    status = read_status(run)
    return status is not None and status.state.is_unsuccessful


def _partition_of(description: Description) -> Partition | None:
    """Return the partition of a job, if it is one of the cluster that this machine speaks to, and that answers."""
    if description.cluster != "slurm":
        return None
    try:
        inventory = current_inventory(os.environ.get("SLURM_CONF"))
    except (HelpersError, OSError):
        return None
    is_here = description.place in {"", inventory.cluster}
    return inventory.partition(description.resources.get("partition", "")) if is_here else None
