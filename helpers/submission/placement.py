"""Choose where on the cluster a job goes, and refuse what could never run, before it is queued.

The partition that is asked for; else the cluster's default if it serves; else the cheapest that does, whole
nodes and billed ones counted as what they cost. Never by itself: a partition whose jobs can be preempted, and
an interactive one for a job that does not say that it is short.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.submission.amounts import duration_text
from helpers.submission.inventory import gpu_weight, is_mig

if TYPE_CHECKING:
    from helpers.submission.inventory import Inventory, NodeGroup, Partition
    from helpers.submission.request import Request

_INTERACTIVE = re.compile(r"interact|debug|devel|test", re.IGNORECASE)
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


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """Why a partition cannot serve a request.

    Args:
        limit: The limit that is in the way, as the end of "the partition …".
        hint: The nearest thing that would run there.
    """

    limit: str
    hint: str


def place(request: Request, inventory: Inventory) -> tuple[Fit, str]:
    """Return where the job goes, and why there.

    Raises:
        InvalidRequest: If no partition could ever run it, naming the limit and the nearest thing that would run.
    """
    _check_type(request, inventory)
    if request.partition is not None:
        return _place_as_asked(request, inventory), "asked for"
    judged = [(partition, judge(partition, request)) for partition in inventory.partitions]
    default = next((fit for partition, fit in judged if partition.is_default), None)
    if isinstance(default, Fit):
        return default, "the cluster's default"
    fits = [fit for partition, fit in judged if isinstance(fit, Fit) and _may_be_chosen(partition, request)]
    if fits:
        return min(fits, key=lambda fit: fit.cost), "the cheapest that serves"
    raise _refusal([(p, m) for p, m in judged if isinstance(m, Misfit)], [f for _, f in judged])


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
            hint=f"nodes={_nodes_for(request.gpus.count, per_node)}",
        )
    groups = [group for group in partition.nodes if group.gpus_of(request.gpus.kind) >= wanted]
    ranks = request.processes_on(nodes) // nodes
    if (misfit := _judge_hosts(groups, request, ranks)) is not None:
        return misfit
    groups = [g for g in groups if (request.cpus or 1) * ranks <= g.cpus and (request.mem_mb or 0) <= g.mem_mb]
    most = min(sum(group.count for group in groups), partition.max_nodes or math.inf)
    if nodes > most:
        return Misfit(limit=_too_few_nodes(request, int(most), nodes), hint=_nearest(request, int(most), per_node))
    return _fit(partition, groups, request, nodes)


def _judge_hosts(groups: list[NodeGroup], request: Request, ranks: int) -> Misfit | None:
    cpus = max((group.cpus for group in groups), default=0)
    if (request.cpus or 1) * ranks > cpus:
        return Misfit(
            limit=f"has {cpus} CPUs a node; {ranks} processes × {request.cpus or 1} CPUs do not fit",
            hint=_fewer_cpus(request, cpus, ranks),
        )
    mem = max((group.mem_mb for group in groups), default=0)
    if (request.mem_mb or 0) > mem:
        return Misfit(limit=f"has {mem / 1024:.3g}G of memory a node", hint=f'mem="{mem // 1024}G"')
    return None


def _fewer_cpus(request: Request, cpus: int, ranks: int) -> str:
    if request.nodes is None and not request.gpus.count:
        spread = next((nodes for nodes in range(2, ranks + 1) if ranks % nodes == 0), ranks)
        return f"nodes={spread}"
    return f"cpus={cpus // ranks}" if cpus >= ranks else f"processes={cpus}"


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


def _place_as_asked(request: Request, inventory: Inventory) -> Fit:
    partition = inventory.partition(request.partition or "")
    if partition is None:
        names = [known.name for known in inventory.partitions]
        near = difflib.get_close_matches(request.partition or "", names, n=1)
        raise InvalidRequest(
            f"There is no partition {request.partition!r} on {inventory.cluster}.",
            hint=f'partition="{near[0]}"' if near else f"there are: {', '.join(names)}",
        )
    fit = judge(partition, request)
    if isinstance(fit, Misfit):
        raise InvalidRequest(f"The partition {partition.name} {fit.limit}: this job could never run.", hint=fit.hint)
    return fit


def place_session(request: Request, inventory: Inventory) -> Fit:
    """Return where a person's interactive session goes: a partition meant for it, else where a job would go.

    Raises:
        InvalidRequest: If no partition could ever run it.
    """
    if request.partition is None:
        meant = [p for p in inventory.partitions if _INTERACTIVE.search(p.name) and not (p.accounts or p.groups)]
        fits = [fit for fit in (judge(partition, request) for partition in meant) if isinstance(fit, Fit)]
        if fits:
            return min(fits, key=lambda fit: fit.cost)
    return place(request, inventory)[0]


def _may_be_chosen(partition: Partition, request: Request) -> bool:
    if partition.preemptible or partition.accounts or partition.groups:
        return False
    return not _INTERACTIVE.search(partition.name) or request.time_min is not None


def _check_type(request: Request, inventory: Inventory) -> None:
    kind, known = request.gpus.kind, inventory.gpu_types
    if kind is None or kind in known:
        return
    near = difflib.get_close_matches(kind, known, n=1)
    raise InvalidRequest(
        f"{inventory.cluster} has no GPUs of type {kind!r}.",
        hint=f'gpus="{near[0]}:{request.gpus.count}"' if near else f"its types are: {', '.join(known) or 'not named'}",
    )


def _refusal(misfits: list[tuple[Partition, Misfit]], judged: list[Fit | Misfit]) -> InvalidRequest:
    withheld = next((fit for fit in judged if isinstance(fit, Fit)), None)
    if withheld is not None:
        return InvalidRequest(
            f"Only partitions that are never chosen by themselves could run this: {withheld.partition.name} "
            "(its jobs can be preempted, it is for interactive work, or it is not for everybody).",
            hint=f'partition="{withheld.partition.name}"',
        )
    by_limit: dict[str, list[str]] = {}
    for partition, misfit in misfits:
        by_limit.setdefault(misfit.limit, []).append(partition.name)
    limits = "; ".join(_sentence(names, limit) for limit, names in by_limit.items())
    default = next(
        (misfit for partition, misfit in misfits if partition.is_default), misfits[0][1] if misfits else None
    )
    return InvalidRequest(f"No partition could ever run this: {limits}.", hint=default.hint if default else "sinfo")


def _sentence(names: list[str], limit: str) -> str:
    verb, _, rest = limit.partition(" ")
    plural = {"has": "have", "allows": "allow", "does": "do"}
    return f"{', '.join(names)} {verb if len(names) == 1 else plural.get(verb, verb)} {rest}"


def _nodes_for(gpus: int, per_node: int) -> int:
    """Return the fewest nodes over which the GPUs can be spread evenly; 1 where none are asked for."""
    if not gpus or not per_node:
        return 1
    return next(nodes for nodes in range(math.ceil(gpus / per_node), gpus + 1) if gpus % nodes == 0)


def _other_types(partition: Partition) -> str:
    kinds = sorted({kind for group in partition.nodes for kind in group.gpus if kind})
    return f'gpus="{kinds[0]}:1"' if kinds else "leave gpus= out, or name another partition"


def _too_few_nodes(request: Request, most: int, nodes: int) -> str:
    have = f"has {most} such node{'' if most == 1 else 's'} for a job"
    if request.nodes is not None or not request.gpus.count:
        return f"{have}, and this takes {nodes}"
    return f"{have}, and {request.gpus.count} GPUs, the same number on each node, take {nodes}"


def _nearest(request: Request, most: int, per_node: int) -> str:
    """Return the nearest numbers of GPUs, below and above, that can be spread over so many nodes."""
    if request.nodes is not None or not request.gpus.count or not most:
        return f"nodes={max(1, most)}"
    wanted, kind = request.gpus.count, f"{request.gpus.kind}:" if request.gpus.kind else ""
    possible = [count for count in range(1, most * per_node + 1) if _nodes_for(count, per_node) <= most]
    near = [count for count in possible if count < wanted][-1:] + [count for count in possible if count > wanted][:1]
    return " or ".join(f'gpus="{kind}{count}"' if kind else f"gpus={count}" for count in near)
