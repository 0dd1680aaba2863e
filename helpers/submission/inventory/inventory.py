"""Read what the cluster has: partitions, their nodes, GPU types and limits, as Slurm itself tells them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from helpers.runtime.duration import read_duration
from helpers.submission.clusters.slurm_queue import ask_slurm
from helpers.submission.resources.amounts import is_mig

_SEPARATOR = "\x1f"
_SINFO_FIELDS = ("%P", "%a", "%l", "%L", "%D", "%c", "%m", "%G", "%f", "%h", "%s", "%t")
_UNUSABLE = ("down", "drain", "drng", "fail", "maint", "unk", "inval", "futr", "pow_dn")
_SEVENTHS = 7  # an A100 or H100 is cut into seven compute slices: "2g.10gb" is two of them (NVIDIA MIG user guide)


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """Nodes of a partition that are alike.

    Args:
        count: How many there are.
        usable: How many of them are neither down nor drained.
        cpus: On each.
        mem_mb: Host memory on each, in MiB.
        gpus: How many of each type on each, as Slurm names the types; ``""`` where it names none.
        features: What ``--constraint`` may ask for.
    """

    count: int
    usable: int
    cpus: int
    mem_mb: int
    gpus: dict[str, int] = field(default_factory=dict)
    features: tuple[str, ...] = ()

    def gpus_of(self, kind: str | None) -> int:
        """Return how many GPUs of this type each node has; None: whole ones of any one type."""
        if kind is not None:
            return self.gpus.get(kind, 0)
        return max((count for name, count in self.gpus.items() if not is_mig(name)), default=0)

    def share(self, kind: str | None, count: int) -> float:
        """Return which part of a node ``count`` GPUs are, from 0 to 1; a MIG slice weighs what it is cut from."""
        whole = sum(gpu_weight(name) * number for name, number in self.gpus.items())
        wanted = gpu_weight(kind or "") * count
        return min(1.0, wanted / whole) if whole else 0.0


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A partition, as far as choosing one needs it.

    Args:
        name: May hold any character but a comma.
        is_default: Whether Slurm takes it when none is asked for.
        is_up: Whether it takes jobs.
        max_time_min: Its time limit in minutes; None for none.
        default_time_min: The limit of a job that asks for none; None where it is ``max_time_min``.
        max_nodes: Of one job; None for any number.
        exclusive: Whether a job gets whole nodes, and pays for them.
        preemptible: Whether jobs of other partitions may take a job's place.
        accounts: Which may use it; empty for all.
        groups: Which may use it; empty for all.
        billing: Slurm's ``TRESBillingWeights``, by resource (``cpu``, ``mem`` per GiB, ``gres/gpu``).
        nodes: Its nodes, by kind.
    """

    name: str
    is_default: bool
    is_up: bool
    max_time_min: int | None
    default_time_min: int | None
    max_nodes: int | None
    exclusive: bool
    preemptible: bool
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    billing: dict[str, float] = field(default_factory=dict)
    nodes: tuple[NodeGroup, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What a cluster has.

    Args:
        cluster: Slurm's ``ClusterName``.
        partitions: In Slurm's order.
        max_array_size: The largest array index plus one.
        requeue_allowed: Slurm's ``JobRequeue``: whether jobs are requeued unless they say otherwise.
    """

    cluster: str
    partitions: tuple[Partition, ...]
    max_array_size: int
    requeue_allowed: bool

    def partition(self, name: str) -> Partition | None:
        """Return the partition of that name."""
        return next((partition for partition in self.partitions if partition.name == name), None)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The names of all GPU types, MIG slices included."""
        kinds = {name for partition in self.partitions for group in partition.nodes for name in group.gpus if name}
        return tuple(sorted(kinds))


def read_inventory() -> Inventory:
    """Ask the controller: three short questions, whatever the size of the cluster.

    Raises:
        ClusterUnreachable: If it does not answer.
    """
    config = _read_config(ask_slurm(["scontrol", "show", "config"]))
    details = _read_details(ask_slurm(["scontrol", "--oneliner", "--all", "show", "partition"]))
    form = _SEPARATOR.join(_SINFO_FIELDS)
    partitions = _read_partitions(ask_slurm(["sinfo", "--noheader", "--exact", f"--format={form}"]), details, config)
    return Inventory(
        cluster=config.get("ClusterName", ""),
        partitions=partitions,
        max_array_size=int(config.get("MaxArraySize", "1001")),
        requeue_allowed=config.get("JobRequeue", "1") == "1",
    )


def _read_config(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _read_details(text: str) -> dict[str, dict[str, str]]:
    """Return each partition's settings by name; a name may hold an equals sign no more than a blank."""
    found = {}
    for line in text.splitlines():
        words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if "PartitionName" in words:
            found[words["PartitionName"]] = words
    return found


def _read_partitions(text: str, details: dict[str, dict[str, str]], config: dict[str, str]) -> tuple[Partition, ...]:
    lines: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        fields = line.split(_SEPARATOR)
        if len(fields) == len(_SINFO_FIELDS):
            lines.setdefault(fields[0].removesuffix("*"), []).append(fields)
    by_tier = config.get("PreemptType") == "preempt/partition_prio"
    tiers = [int(details.get(name, {}).get("PriorityTier", "1")) for name in lines]
    return tuple(
        _make_partition(name, fields, details.get(name, {}), highest_tier=max(tiers) if by_tier else None)
        for name, fields in lines.items()
    )


def _make_partition(
    name: str, lines: list[list[str]], details: dict[str, str], *, highest_tier: int | None
) -> Partition:
    _, is_up, max_time, default_time, *_ = lines[0]
    below = highest_tier is not None and int(details.get("PriorityTier", "1")) < highest_tier
    return Partition(
        name=name,
        is_default=details.get("Default") == "YES",
        is_up=is_up == "up",
        max_time_min=_minutes(max_time),
        default_time_min=_minutes(default_time),
        max_nodes=_number(details.get("MaxNodes", "UNLIMITED")),
        exclusive=details.get("OverSubscribe", "") == "EXCLUSIVE",
        preemptible=below and details.get("PreemptMode", "OFF") != "OFF",
        accounts=_names(details.get("AllowAccounts", "ALL")),
        groups=_names(details.get("AllowGroups", "ALL")),
        billing=_weights(details.get("TRESBillingWeights", "")),
        nodes=_merge([_make_group(line) for line in lines]),
    )


def _make_group(line: list[str]) -> NodeGroup:
    *_, count, cpus, mem, gres, features, _shared, _size, state = line
    usable = 0 if is_unusable(state) else int(count)
    return NodeGroup(
        count=int(count),
        usable=usable,
        cpus=int(cpus.rstrip("+")),
        mem_mb=int(mem.rstrip("+")),
        gpus=read_gres(gres),
        features=tuple(name for name in features.split(",") if name != "(null)"),
    )


def _merge(groups: list[NodeGroup]) -> tuple[NodeGroup, ...]:
    """Add up groups that differ only by the nodes' state."""
    merged: dict[tuple[object, ...], NodeGroup] = {}
    for group in groups:
        kind = (group.cpus, group.mem_mb, tuple(sorted(group.gpus.items())), group.features)
        known = merged.get(kind)
        counts = (known.count, known.usable) if known else (0, 0)
        merged[kind] = NodeGroup(
            count=group.count + counts[0],
            usable=group.usable + counts[1],
            cpus=group.cpus,
            mem_mb=group.mem_mb,
            gpus=group.gpus,
            features=group.features,
        )
    return tuple(merged.values())


def is_unusable(state: str) -> bool:
    """Say whether a node in this state, in Slurm's word in lower case, takes no jobs."""
    return state.rstrip("*~#!%$@^-+").startswith(_UNUSABLE)


def read_gres(text: str) -> dict[str, int]:
    """Read Slurm's list of generic resources: ``gpu:a100:4(S:0-1),gpu:2g.10gb:2`` is ``{"a100": 4, "2g.10gb": 2}``."""
    gpus: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *rest = entry.strip().split(":")
        if name == "gpu" and rest and rest[-1].isdecimal():
            kind = ":".join(rest[:-1])
            gpus[kind] = gpus.get(kind, 0) + int(rest[-1])
    return gpus


def _minutes(text: str) -> int | None:
    """Read ``7-00:00:00``, ``30:00``, ``infinite``, ``n/a``."""
    seconds = read_duration(text)
    return None if seconds is None else math.ceil(seconds / 60)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _names(text: str) -> tuple[str, ...]:
    return () if text in {"ALL", "(null)", ""} else tuple(text.split(","))


def _weights(text: str) -> dict[str, float]:
    """Read ``CPU=1.0,Mem=0.25G,GRES/gpu=16`` into weights for each CPU, GiB and GPU."""
    factors = {"K": 1024.0**2, "M": 1024.0, "G": 1.0, "T": 1 / 1024}
    weights: dict[str, float] = {}
    for entry in text.split(","):
        name, _, value = entry.rpartition("=")
        match = re.fullmatch(r"([\d.]+)([KMGT]?)", value.strip())
        if name and match:
            is_mem = name.strip().lower() == "mem"
            weights[name.strip().lower()] = float(match[1]) * (factors[match[2] or "M"] if is_mem else 1)
    return weights


def gpu_weight(kind: str) -> float:
    """Return which part of a GPU one of this type is: 1, or 2/7 for a ``2g.10gb``."""
    return int(re.sub(r"^mig-", "", kind, flags=re.IGNORECASE).partition("g")[0]) / _SEVENTHS if is_mig(kind) else 1.0
