"""Count the GPUs of the cluster, or of this machine: how many there are, how many are free."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from helpers.errors import InvalidRequest
from helpers.submission.inventory import is_unusable, read_gres
from helpers.submission.slurm_queue import ask_slurm

_FIELD = re.compile(r"(?:^| )(NodeName|CPUAlloc|CPUTot|Gres|GresUsed|State|Partitions)=(\S*)")
_QUERY = "index,name,memory.total,memory.used,utilization.gpu"
_TIMEOUT_S = 30


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
class OwnGpu:
    """A GPU of this machine.

    Args:
        index: The driver's number.
        name: The driver's name.
        memory_mb: In all, in MiB.
        used_mb: In use, in MiB.
        busy_percent: Of the time, in the last moment.
    """

    index: int
    name: str
    memory_mb: int
    used_mb: int
    busy_percent: int | None


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
    """Ask this machine's driver; none where there is no NVIDIA driver.

    Raises:
        InvalidRequest: If the driver does not work, with its own words.
    """
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError:
        return []
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidRequest(f"nvidia-smi does not answer: {error}", hint="nvidia-smi") from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()
        raise InvalidRequest(f"The GPU driver of this machine does not work: {words}", hint="nvidia-smi")
    return [_read_own(line) for line in done.stdout.splitlines() if line.strip()]


def _read_own(line: str) -> OwnGpu:
    index, name, total, used, busy = (part.strip() for part in line.split(","))
    return OwnGpu(
        index=int(index),
        name=name,
        memory_mb=_number(total) or 0,
        used_mb=_number(used) or 0,
        busy_percent=_number(busy),
    )


def _number(text: str) -> int | None:
    """Read a number; the driver says ``[N/A]`` where it has none, as for a GPU that is cut into slices."""
    return int(text) if text.isdecimal() else None
