"""What a node has, and how much of it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.testing.controller.notation.gpus import gpus_text
from helpers.testing.controller.notation.hostlists import ranges

if TYPE_CHECKING:
    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.settings import Node


def gpu_numbers(node: Node) -> dict[str, list[int]]:
    """Return the numbers of a node's GPUs by type, in the order in which they are declared."""
    numbers: dict[str, list[int]] = {}
    first = 0
    for kind, count in node.gpus.items():
        numbers[kind] = list(range(first, first + count))
        first += count
    return numbers


def gres(node: Node) -> str:
    """Return a node's GPUs as Slurm writes them."""
    return gpus_text(node.gpus) or "(null)"


def gres_used(cluster: Cluster, node: Node) -> str:
    """Return those that are taken."""
    taken = {n for job in cluster.active() for n in job.gpus.get(node.name, [])}
    parts = []
    for kind, numbers in gpu_numbers(node).items():
        used = [n for n in numbers if n in taken]
        parts.append(f"gpu:{kind}:{len(used)}(IDX:{ranges(used) or 'N/A'})")
    return ",".join(parts) or "gpu:0"


def cpus_used(cluster: Cluster, node: Node) -> int:
    """Return how many of a node's CPUs are taken."""
    jobs = [job for job in cluster.active() if node.name in job.nodes]
    return node.cpus if any(job.demand.exclusive for job in jobs) else sum(job.demand.cpus_per_node for job in jobs)


def mem_used(cluster: Cluster, node: Node) -> int:
    """Return how much of a node's memory is taken, in MiB."""
    return sum(job.demand.mem_mb for job in cluster.active() if node.name in job.nodes)


def state_of(cluster: Cluster, node: Node) -> str:
    """Return a node's state as sinfo writes it."""
    used, given = cpus_used(cluster, node), cluster.node_states.get(node.name, "")
    if given == "drain":
        return "draining" if used else "drained"
    if given:
        return given
    if not used:
        return "idle"
    return "allocated" if used >= node.cpus else "mixed"
