"""Who gets which nodes, CPUs, memory and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.testing.controller.nodes import gpu_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.controller.demand import Demand
    from helpers.testing.controller.jobs import Job
    from helpers.testing.settings import Node


def could_ever_run(cluster: Cluster, demand: Demand) -> str | None:
    """Return None, or Slurm's sentence for what no node of the partition has."""
    partition = cluster.partition(demand.partition)
    nodes = cluster.nodes_of(partition) if partition else []
    if demand.mem_mb > max((node.mem_mb for node in nodes), default=0):
        return "memory"
    if not any(_pick_gpus(gpu_numbers(node), demand.gpus) is not None for node in nodes):
        return "gpus"
    return None


def over_limit(cluster: Cluster, demand: Demand) -> str | None:
    """Return Slurm's reason why a job waits for ever, or None."""
    partition = cluster.partition(demand.partition)
    if partition is None:
        return "PartitionDown"
    nodes = cluster.nodes_of(partition)
    limit = partition.max_time_min
    if limit is not None and (demand.time_min > limit or not demand.time_min):
        return "PartitionTimeLimit"
    if demand.nodes > min(len(nodes), partition.max_nodes or len(nodes)):
        return "PartitionNodeLimit"
    if demand.cpus_per_node > max((node.cpus for node in nodes), default=0):
        return "PartitionConfig"
    return None if partition.is_up else "PartitionDown"


def find_place(cluster: Cluster, demand: Demand, *, without: Iterable[Job] = ()) -> dict[str, list[int]] | None:
    """Return the GPUs by node that a job gets now, or None where it has to wait.

    Args:
        cluster: Its nodes and who holds them.
        demand: What is asked for.
        without: Jobs that are thought away.
    """
    partition = cluster.partition(demand.partition)
    if partition is None:
        return None
    away = {id(job) for job in without}
    others = [job for job in cluster.active() if id(job) not in away]
    found: dict[str, list[int]] = {}
    names = [node.name for node in cluster.nodes_of(partition)]
    wanted = [*demand.nodelist, *(name for name in names if name not in demand.nodelist)]
    for name in wanted:
        gpus = None if name in demand.exclude else _fit(cluster, cluster.nodes[name], demand, others)
        if gpus is None:
            if name in demand.nodelist:
                return None
            continue
        found[name] = gpus
        if len(found) == demand.nodes:
            return {name: found[name] for name in names if name in found}
    return None


def _fit(cluster: Cluster, node: Node, demand: Demand, others: list[Job]) -> list[int] | None:
    here = [job for job in others if node.name in job.nodes]
    if not cluster.is_usable(node.name) or not set(demand.features) <= set(node.features):
        return None
    if (demand.exclusive and here) or any(job.demand.exclusive for job in here):
        return None
    if demand.cpus_per_node > node.cpus - sum(job.demand.cpus_per_node for job in here):
        return None
    if demand.mem_mb > node.mem_mb - sum(job.demand.mem_mb for job in here):
        return None
    taken = {number for job in here for number in job.gpus.get(node.name, [])}
    free = {kind: [n for n in numbers if n not in taken] for kind, numbers in gpu_numbers(node).items()}
    return _pick_gpus(free, demand.gpus)


def _pick_gpus(free: dict[str, list[int]], wanted: dict[str, int]) -> list[int] | None:
    """Take typed ones first, then any."""
    free = {kind: list(numbers) for kind, numbers in free.items()}
    picked: list[int] = []
    for kind, count in sorted(wanted.items(), key=lambda item: not item[0]):
        pool = free.get(kind, []) if kind else [number for numbers in free.values() for number in numbers]
        if len(pool) < count:
            return None
        taken = pool[:count]
        picked += taken
        free = {name: [number for number in numbers if number not in taken] for name, numbers in free.items()}
    return sorted(picked)
