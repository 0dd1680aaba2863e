"""Count the GPUs of the cluster, and how many are free; on a machine without Slurm tell who holds which."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.runtime.gpus.lease import describe_use, used_without_lease, user_name
from helpers.runtime.gpus.nvml import Gpu, list_gpus
from helpers.runtime.gpus.queue import GpuQueue, leases_folder
from helpers.submission.clusters.slurm_queue import ask_slurm
from helpers.submission.inventory.inventory import is_unusable, read_gres

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.runtime.gpus.ticket import Ticket

_FIELD = re.compile(r"(?:^| )(NodeName|CPUAlloc|CPUTot|Gres|GresUsed|State|Partitions)=(\S*)")
_IDLE_S = 600  # a training that reads its data, or compiles, leaves its GPU alone for minutes


@dataclass(frozen=True, kw_only=True)
class GpuCount:
    """The GPUs of one type in one partition.

    Args:
        partition: By name; a node that is in several partitions counts in each.
        kind: Slurm's name of the type; empty where it names none.
        nodes: Nodes that have some.
        total: GPUs in all.
        used: Of these, given to jobs.
        down: Of these, on nodes that take no jobs.
        free: Of these, free on nodes that have a CPU free too.
        most_free: On the node that has most of them free: what one job on one node can get now.
    """

    partition: str
    kind: str
    nodes: int
    total: int
    used: int
    down: int
    free: int
    most_free: int


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A job of this machine that holds GPUs, or waits for some.

    Args:
        job: Its id.
        user: Whose it is.
        pid: Of its supervisor.
        folder: Its run folder.
        since: When it began to hold, or to wait, in seconds since the epoch.
        gpus: How many it wants, or has.
        reason: Why it waits; empty where it does not.
    """

    job: str
    user: str
    pid: int
    folder: str
    since: float
    gpus: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class OwnGpu:
    """A GPU of this machine, or a MIG slice.

    Args:
        index: The driver's number.
        uuid: What tells it from all others.
        name: The driver's name.
        memory_mb: In all, in MiB; None where it is not known.
        used_mb: In use, in MiB; None where it is not known.
        busy_percent: Of the time, in the last moment; None where it is not known.
        held_by: The job that holds it; None where none does.
        used_by: Who uses it without a lease; empty where nobody does.
        idle_s: How long its holder has left it alone, in seconds, where that is ten minutes or more; else None.
    """

    index: str
    uuid: str
    name: str
    memory_mb: int | None
    used_mb: int | None
    busy_percent: int | None
    held_by: Holder | None = None
    used_by: str = ""
    idle_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class _Node:
    partitions: tuple[str, ...]
    gpus: dict[str, int]
    used: dict[str, int]
    is_down: bool
    has_cpus: bool


def count_cluster_gpus() -> list[GpuCount]:
    """Ask the controller once, and count by partition and type.

    Raises:
        ClusterUnreachable: If it does not answer.
    """
    nodes = read_nodes(ask_slurm(["scontrol", "--details", "--oneliner", "show", "node"]))
    partitions = dict.fromkeys(name for node in nodes for name in node.partitions)
    kinds = sorted({kind for node in nodes for kind in node.gpus})
    counts = [_count(nodes, partition, kind) for partition in partitions for kind in kinds]
    return [count for count in counts if count.total]


def read_nodes(text: str) -> list[_Node]:
    """Read what ``scontrol --details --oneliner show node`` prints."""
    nodes = []
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        if not fields:
            continue
        nodes.append(
            _Node(
                partitions=tuple(filter(None, fields.get("Partitions", "").split(","))),
                gpus=read_gres(fields.get("Gres", "")),
                used=read_gres(fields.get("GresUsed", "")),
                is_down=any(is_unusable(word) for word in fields.get("State", "").lower().split("+")),
                has_cpus=int(fields.get("CPUAlloc", "0")) < int(fields.get("CPUTot", "1")),
            )
        )
    return nodes


def _count(nodes: list[_Node], partition: str, kind: str) -> GpuCount:
    there = [node for node in nodes if partition in node.partitions and node.gpus.get(kind)]
    free = [
        max(0, node.gpus[kind] - node.used.get(kind, 0)) if node.has_cpus and not node.is_down else 0 for node in there
    ]
    return GpuCount(
        partition=partition,
        kind=kind,
        nodes=len(there),
        total=sum(node.gpus[kind] for node in there),
        used=sum(node.used.get(kind, 0) for node in there),
        down=sum(node.gpus[kind] for node in there if node.is_down),
        free=sum(free),
        most_free=max(free, default=0),
    )


def list_own_gpus() -> list[OwnGpu]:
    """Ask this machine's driver, and the queue for who holds what; none where there is no NVIDIA driver.

    Raises:
        InvalidRequest: If the driver does not work, with its own words; or the folder of the leases is unsafe.
    """
    gpus = list_gpus()
    if not gpus:
        return []
    queue = GpuQueue(leases_folder(os.environ))
    tickets = queue.look()
    return [_describe(gpu, gpus, tickets, queue) for gpu in gpus]


def list_waiting() -> list[Holder]:
    """Return the jobs that wait for GPUs of this machine, in the order of their turns.

    Raises:
        InvalidRequest: If the folder of the leases is unsafe.
    """
    return [_holder(ticket) for ticket in GpuQueue(leases_folder(os.environ)).look() if not ticket.held]


def _describe(gpu: Gpu, gpus: Sequence[Gpu], tickets: Sequence[Ticket], queue: GpuQueue) -> OwnGpu:
    holder = next((ticket for ticket in reversed(tickets) if gpu.uuid in ticket.held), None)  # the innermost
    since = queue.idle_since(holder).get(gpu.uuid) if holder is not None else None
    idle_s = None if since is None else time.time() - since
    return OwnGpu(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        memory_mb=gpu.memory_mb,
        used_mb=gpu.used_mb,
        busy_percent=gpu.busy_percent,
        held_by=None if holder is None else _holder(holder),
        used_by=describe_use(gpu) if gpu.uuid in used_without_lease(gpus, tickets) else "",
        idle_s=None if idle_s is None or idle_s < _IDLE_S else idle_s,
    )


def _holder(ticket: Ticket) -> Holder:
    return Holder(
        job=ticket.job,
        user=user_name(ticket.uid),
        pid=ticket.pid,
        folder=ticket.folder,
        since=ticket.since,
        gpus=len(ticket.held) or ticket.wants,
        reason=ticket.reason,
    )
