"""What a job asks for: as it is kept, and as it is read from the options of a submission."""

from __future__ import annotations

import getpass
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.testing.controller.capacity import could_ever_run, over_limit
from helpers.testing.controller.notation.gpus import read_gpus
from helpers.testing.controller.notation.hostlists import expand
from helpers.testing.controller.notation.memory import read_memory_mb
from helpers.testing.controller.notation.options import UsageError, read_count
from helpers.testing.controller.notation.times import read_minutes
from helpers.testing.controller.refusal import Refusal

if TYPE_CHECKING:
    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.settings import Partition

_UNAVAILABLE = "Requested node configuration is not available"


@dataclass(kw_only=True)
class Demand:
    """What a job asks for, with nothing left open.

    Args:
        partition: Its name.
        nodes: How many.
        tasks: In all.
        cpus_per_task: For each.
        mem_mb: On each node.
        gpus: On each node, by type; ``""`` for any.
        exclusive: Whether it wants whole nodes.
        nodelist: The nodes that it must have.
        exclude: Those that it must not have.
        features: Those that its nodes must have.
        time_min: Its limit; 0 for none.
    """

    partition: str
    nodes: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    mem_mb: int = 0
    gpus: dict[str, int] = field(default_factory=dict)
    exclusive: bool = False
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    time_min: int = 0

    @property
    def tasks_per_node(self) -> int:
        """The most tasks that a node gets."""
        return -(-self.tasks // self.nodes)

    @property
    def cpus_per_node(self) -> int:
        """The CPUs that its fullest node gives."""
        return self.tasks_per_node * self.cpus_per_task


def read_demand(cluster: Cluster, options: dict[str, str]) -> Demand:
    """Return what a submission asks for, with Slurm's own choice for what it leaves open.

    Raises:
        UsageError: For a value that is none.
        Refusal: For what this cluster does not have.
    """
    minutes = read_minutes(options["time"]) if "time" in options else None
    if "time" in options and minutes is None:
        raise UsageError("sbatch: error: Invalid --time specification\n")
    _check_said_once(options)
    mem = {name: _memory(name, options) for name in _MEMORY}
    nodes = _node_count(options)
    tasks, per_node = _number(options, "ntasks"), _number(options, "ntasks-per-node")
    cpus = _number(options, "cpus-per-task") or 1
    partition = _find_partition(cluster, options)
    _check_names(cluster, options, partition)
    gpus, total = _gpus(options)
    if nodes is None:
        nodes = _fewest_nodes(cluster, partition, tasks, per_node, cpus, total)
    tasks = tasks or (per_node or 1) * nodes
    demand = Demand(
        partition=partition.name,
        nodes=nodes,
        tasks=tasks,
        cpus_per_task=cpus,
        gpus=gpus or ({kind: -(-count // nodes) for kind, count in total.items()}),
        exclusive="exclusive" in options or partition.exclusive,
        nodelist=tuple(expand(options.get("nodelist", ""))),
        exclude=tuple(expand(options.get("exclude", ""))),
        features=tuple(word for word in re.split(r"[&|,]", options.get("constraint", "")) if word),
        time_min=minutes if minutes is not None else (partition.default_time_min or partition.max_time_min or 0),
    )
    demand.mem_mb = _memory_on_node(cluster, partition, demand, mem)
    _check_capacity(cluster, demand, partition)
    return demand


_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")


def _check_said_once(options: dict[str, str]) -> None:
    """Refuse what sbatch itself does before it asks the controller (tried with Slurm 22.05)."""
    if sum(name in options for name in _MEMORY) > 1:
        words = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
        raise UsageError(f"sbatch: fatal: {words}\n", code=1)
    if {"ntasks-per-node", "ntasks-per-gpu"} <= set(options):
        words = "--ntasks-per-node is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
        raise UsageError(f"sbatch: fatal: {words}\n", code=1)


def _memory(name: str, options: dict[str, str]) -> int | None:
    if name not in options:
        return None
    amount = read_memory_mb(options[name])
    if amount is None:
        raise UsageError(f"sbatch: error: Invalid --{name} specification\n")
    return amount


def _node_count(options: dict[str, str]) -> int | None:
    if "nodes" not in options:
        return len(expand(options["nodelist"])) if options.get("nodelist") else None
    match = re.fullmatch(r"(\d+k?)(?:-(\d+k?))?", options["nodes"])
    if match is None or not (count := read_count(match[1])):
        raise UsageError(f'sbatch: error: "{options["nodes"]}" is not a valid node count\n')
    return count


def _number(options: dict[str, str], name: str) -> int | None:
    if name not in options:
        return None
    if not (count := read_count(options[name])):
        raise UsageError(f'sbatch: error: Invalid numeric value "{options[name]}" for --{name}.\n', code=1)
    return count


def _find_partition(cluster: Cluster, options: dict[str, str]) -> Partition:
    name = options.get("partition")
    if name is None:
        default = cluster.default_partition()
        if default is None:
            raise Refusal("No partition specified or system default partition")
        return default
    for part in name.split(","):
        if (found := cluster.partition(part)) is not None:
            return found
    raise Refusal("Invalid partition name specified", before=f"invalid partition specified: {name}")


def _check_names(cluster: Cluster, options: dict[str, str], partition: Partition) -> None:
    account, accounts = options.get("account", getpass.getuser()), cluster.settings.accounts
    allowed = not partition.accounts or account in partition.accounts
    if (accounts and "account" in options and account not in accounts) or not allowed:
        raise Refusal("Invalid account or account/partition combination specified")
    if set(expand(options.get("nodelist", ""))) - set(cluster.nodes):
        raise Refusal("Invalid node name specified")
    known = {feature for node in cluster.nodes.values() for feature in node.features}
    if set(re.split(r"[&|,]", options.get("constraint", ""))) - known - {""}:
        raise Refusal("Invalid feature specification")


def _gpus(options: dict[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the GPUs for each node, and those for the whole job."""
    per_node = read_gpus(options.get("gpus-per-node", ""))
    for entry in options.get("gres", "").split(","):
        if entry.startswith("gpu"):
            per_node |= read_gpus(entry.removeprefix("gpu").removeprefix(":") or "1")
    total = read_gpus(options.get("gpus", ""))
    if "gpus-per-task" in options and "ntasks" in options:
        times = read_count(options["ntasks"]) or 1
        total |= {kind: count * times for kind, count in read_gpus(options["gpus-per-task"]).items()}
    return per_node, total


def _fewest_nodes(
    cluster: Cluster, partition: Partition, tasks: int | None, per_node: int | None, cpus: int, gpus: dict[str, int]
) -> int:
    if tasks and per_node:
        return math.ceil(tasks / per_node)
    nodes = cluster.nodes_of(partition)
    fit = max((node.cpus // cpus for node in nodes), default=1) or 1
    by_tasks = min(math.ceil((tasks or 1) / fit), max(1, len(nodes)))
    by_gpus = 1
    for kind, count in gpus.items():
        most = max((node.gpus.get(kind, 0) if kind else sum(node.gpus.values()) for node in nodes), default=0)
        by_gpus = max(by_gpus, math.ceil(count / most)) if most else by_gpus
    return max(by_tasks, by_gpus)


def _memory_on_node(cluster: Cluster, partition: Partition, demand: Demand, mem: dict[str, int | None]) -> int:
    if mem["mem"] is not None:
        whole = max(node.mem_mb for node in cluster.nodes_of(partition))
        return mem["mem"] or whole
    if mem["mem-per-gpu"] is not None:
        return mem["mem-per-gpu"] * sum(demand.gpus.values())
    most = max((node.cpus for node in cluster.nodes_of(partition)), default=1)
    per_cpu = partition.mem_per_cpu_mb if mem["mem-per-cpu"] is None else mem["mem-per-cpu"]
    return per_cpu * min(demand.cpus_per_node, most)


def _check_capacity(cluster: Cluster, demand: Demand, partition: Partition) -> None:
    lacking = could_ever_run(cluster, demand)
    if lacking is not None:
        raise Refusal(_UNAVAILABLE, before="Memory specification can not be satisfied" if lacking == "memory" else "")
    if not cluster.settings.enforces_limits:
        return
    if over_limit(cluster, demand) == "PartitionTimeLimit":
        raise Refusal("Requested time limit is invalid (missing or exceeds some limit)")
    if over_limit(cluster, demand) is not None:
        raise Refusal("Node count specification invalid" if partition.max_nodes else _UNAVAILABLE)
