"""Say how a partition would serve a request, and what that costs; or which limit is in the way, and what is nearest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.submission.inventory.inventory import gpu_weight
from helpers.submission.resources.amounts import duration_text, is_mig

if TYPE_CHECKING:
    from helpers.submission.inventory.inventory import NodeGroup, Partition
    from helpers.submission.resources.request import Request
    from helpers.submission.resources.resources import Resources

_USUAL_TIME_MIN = 60  # for comparing costs where neither the job nor the partition names a time


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A way in which a partition serves a request.

    Args:
        partition: Which.
        nodes: Machines.
        kind: The GPU type to ask for; None for any.
        cpus: For each process; None to leave it to the cluster.
        mem_mb: Host memory on each node, in MiB; None to leave it to the cluster.
        gpu_hours: What the job costs if it takes all its time: of GPUs that nobody else can use meanwhile; a
            MIG slice counts as the part of a GPU that it is.
        billing: The same in Slurm's billing units, where the partition has weights; else 0.
    """

    partition: Partition
    nodes: int
    kind: str | None
    cpus: int | None
    mem_mb: int | None
    gpu_hours: float
    billing: float

    @property
    def cost(self) -> tuple[float, float]:
        """What partitions are compared by."""
        return (self.billing or self.gpu_hours, self.gpu_hours)

    def settle(self, request: Request, *, chosen: dict[str, str] | None = None) -> Resources:
        """Return what a job asks for that is served in this way; ``chosen`` says why, by keyword."""
        return request.settle(
            nodes=self.nodes,
            kind=self.kind,
            cpus=self.cpus,
            mem_mb=self.mem_mb,
            partition=self.partition.name,
            chosen=chosen,
            gpu_hours=self.gpu_hours,
            default_time_min=self.partition.default_time_min,
            longest_min=self.partition.max_time_min,
        )


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """Why a partition cannot serve a request.

    Args:
        limit: The limit that is in the way, as the end of "the partition …".
        hint: The nearest thing that would run there.
    """

    limit: str
    hint: str


def judge(partition: Partition, request: Request) -> Fit | Misfit:
    """Say how a partition would serve a request, or why it cannot."""
    if not partition.is_up:
        return Misfit(limit="does not take jobs now", hint="sinfo -s")
    if request.time_min is not None and partition.max_time_min and request.time_min > partition.max_time_min:
        longest = partition.max_time_min
        return Misfit(limit=f"allows {duration_text(longest)} at most", hint=f'time="{duration_text(longest)}"')
    per_node = max((group.gpus_of(request.gpus.kind) for group in partition.nodes), default=0)
    if request.gpus.count and not per_node:
        return Misfit(limit=f"has no {request.gpus.kind or 'GPU'}", hint=_other_types(partition))
    nodes = request.nodes or _nodes_for(request.gpus.count, per_node)
    return _judge_nodes(partition, request, nodes, per_node)


def _judge_nodes(partition: Partition, request: Request, nodes: int, per_node: int) -> Fit | Misfit:
    wanted = request.gpus.count // nodes
    if wanted > per_node:
        return Misfit(
            limit=f"has at most {per_node} {request.gpus.kind or ''} GPUs a node".replace("  ", " "),
            hint=_more_nodes(partition, request, nodes, per_node),
        )
    groups = [group for group in partition.nodes if group.gpus_of(request.gpus.kind) >= wanted]
    ranks = request.processes_on(nodes) // nodes
    if (misfit := _judge_hosts(groups, request, ranks)) is not None:
        return misfit
    groups = [g for g in groups if (request.cpus or 1) * ranks <= g.cpus and (request.mem_mb or 0) <= g.mem_mb]
    most = min(sum(group.count for group in groups), partition.max_nodes or math.inf)
    if nodes > most:
        return Misfit(
            limit=_too_few_nodes(request, int(most), nodes, per_node), hint=_nearest(request, int(most), per_node)
        )
    return _fit(partition, groups, request, nodes)


def _more_nodes(partition: Partition, request: Request, nodes: int, per_node: int) -> str:
    """Return over how many nodes so many GPUs can be spread; where there are fewer, the GPUs of those asked for."""
    needed = _nodes_for(request.gpus.count, per_node)
    there = sum(group.count for group in partition.nodes if group.gpus_of(request.gpus.kind) == per_node)
    if needed <= min(there, partition.max_nodes or there):
        return f"nodes={needed}"
    return f'gpus="{request.gpus.kind}:{per_node * nodes}"' if request.gpus.kind else f"gpus={per_node * nodes}"


def _judge_hosts(groups: list[NodeGroup], request: Request, ranks: int) -> Misfit | None:
    cpus = max((group.cpus for group in groups), default=0)
    if (request.cpus or 1) * ranks > cpus:
        return Misfit(
            limit=f"has {cpus} CPUs a node; {_cpus_asked(request, ranks)}",
            hint=_fewer_cpus(request, cpus, ranks),
        )
    mem = max((group.mem_mb for group in groups), default=0)
    if (request.mem_mb or 0) > mem:
        return Misfit(limit=f"has {mem / 1024:.3g}G of memory a node", hint=f'mem="{mem // 1024}G"')
    return None


def _cpus_asked(request: Request, ranks: int) -> str:
    if ranks == 1:
        return f"{request.cpus} do not fit"
    return f"{ranks} processes × {request.cpus or 1} CPUs do not fit"


def _fewer_cpus(request: Request, cpus: int, ranks: int) -> str:
    """Return the fewest nodes over which the processes can be spread so that they fit, or fewer CPUs."""
    each = request.cpus or 1
    if request.nodes is None and not request.gpus.count and each <= cpus:
        return f"nodes={next(n for n in range(2, ranks + 1) if ranks % n == 0 and ranks // n * each <= cpus)}"
    return f"cpus={cpus // ranks}" if cpus >= ranks else f"processes={cpus}"


def _too_few_nodes(request: Request, most: int, nodes: int, per_node: int) -> str:
    plural, wanted = "" if most == 1 else "s", request.gpus.count
    if request.nodes is not None or not wanted:
        return f"has {most} such node{plural} for a job, and this takes {nodes}"
    have = f"has {most} node{plural} with {per_node} such GPUs for a job"
    if wanted > most * per_node:
        return f"{have}, {most * per_node} in all, and this asks for {wanted}"
    return f"{have}, and {wanted} GPUs cannot be spread evenly over so few nodes"


def _nearest(request: Request, most: int, per_node: int) -> str:
    """Return the nearest numbers of GPUs, below and above, that can be spread over so many nodes."""
    if request.nodes is not None or not request.gpus.count or not most:
        return f"nodes={max(1, most)}"
    wanted, kind = request.gpus.count, f"{request.gpus.kind}:" if request.gpus.kind else ""
    possible = [count for count in range(1, most * per_node + 1) if _nodes_for(count, per_node) <= most]
    near = [count for count in possible if count < wanted][-1:] + [count for count in possible if count > wanted][:1]
    return " or ".join(f'gpus="{kind}{count}"' if kind else f"gpus={count}" for count in near)


def _nodes_for(gpus: int, per_node: int) -> int:
    """Return the fewest nodes over which the GPUs can be spread evenly; 1 where none are asked for."""
    if not gpus or not per_node:
        return 1
    return next(nodes for nodes in range(math.ceil(gpus / per_node), gpus + 1) if gpus % nodes == 0)


def _other_types(partition: Partition) -> str:
    kinds = sorted({kind for group in partition.nodes for kind in group.gpus if kind})
    return f'gpus="{kinds[0]}:1"' if kinds else "leave gpus= out, or name another partition"


def _fit(partition: Partition, groups: list[NodeGroup], request: Request, nodes: int) -> Fit:
    wanted, ranks = request.gpus.count // nodes, request.processes_on(nodes) // nodes
    kind = request.gpus.kind or _whole_gpus(groups)
    shares = [1.0 if partition.exclusive else group.share(kind, wanted) for group in groups]
    parts = list(zip(groups, shares, strict=True))
    cpus, mem_mb = request.cpus, request.mem_mb
    if wanted and cpus is None:
        cpus = max(1, min(int(group.cpus * share / ranks + 1e-9) for group, share in parts))
    if wanted and mem_mb is None:
        mem_mb = max(1, min(int(group.mem_mb * share) for group, share in parts))
    hours = (request.time_min or partition.default_time_min or _USUAL_TIME_MIN) / 60
    taken = max(sum(g.gpus.values()) for g in groups) if partition.exclusive else wanted
    if partition.exclusive:
        billed = _bill(partition, max(g.cpus for g in groups), max(g.mem_mb for g in groups), taken)
        gpus = max(sum(gpu_weight(name) * count for name, count in g.gpus.items()) for g in groups)
    else:
        billed = _bill(partition, (cpus or 1) * ranks, mem_mb or 0, taken)
        gpus = wanted * gpu_weight(kind or "")
    return Fit(
        partition=partition,
        nodes=nodes,
        kind=kind,
        cpus=cpus,
        mem_mb=mem_mb,
        gpu_hours=gpus * nodes * hours,
        billing=billed * nodes * hours,
    )


def _bill(partition: Partition, cpus: int, mem_mb: int, gpus: int) -> float:
    """Return billing units for each hour of a node: the sum over resources (Slurm's default, without MAX_TRES)."""
    weights = partition.billing
    gpu = weights.get("gres/gpu", 0.0)
    return weights.get("cpu", 0.0) * cpus + weights.get("mem", 0.0) * mem_mb / 1024 + gpu * gpus


def _whole_gpus(groups: list[NodeGroup]) -> str | None:
    """Name the type where a node has slices too: asked for "any GPU", Slurm may give a slice."""
    kinds = {kind for group in groups for kind in group.gpus if kind}
    whole = {kind for kind in kinds if not is_mig(kind)}
    return whole.pop() if len(whole) == 1 and len(kinds) > 1 else None
