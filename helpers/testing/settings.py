"""Describe the cluster that the fake plays: nodes, partitions, limits, and how fast its time goes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

_DAY_MIN = 1440


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine of the cluster.

    Args:
        name: As in Slurm's node lists; nothing needs to resolve it.
        cpus: How many it has.
        mem_mb: Host memory in MiB.
        gpus: How many of each type, by the type's name; MIG slices too: ``{"a100": 4, "2g.10gb": 2}``.
        features: What ``--constraint`` may ask for.
    """

    name: str
    cpus: int = 8
    mem_mb: int = 10_000
    gpus: dict[str, int] = field(default_factory=lambda: {"a100": 4, "2g.10gb": 2})
    features: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One partition.

    Args:
        name: Its name.
        nodes: The names of its nodes; empty for all.
        is_default: Whether it takes the jobs that ask for none.
        is_up: Whether it starts jobs.
        max_time_min: Its time limit in minutes; None for none.
        default_time_min: The limit of a job that asks for none; None for ``max_time_min``.
        max_nodes: Of one job; None for any number.
        priority_tier: Jobs of a higher tier take the place of those of a lower one that is preemptible.
        is_preemptible: Whether its jobs can be preempted; they are requeued then.
        grace_time_s: Seconds that a preempted job's ranks have between SIGTERM and the end.
        exclusive: Whether a job gets whole nodes.
        mem_per_cpu_mb: Memory of a job that asks for none, for each of its CPUs, in MiB.
        accounts: Which may use it; empty for all.
        billing: Slurm's ``TRESBillingWeights``, such as ``"CPU=1.0,GRES/gpu=16"``.
    """

    name: str
    nodes: tuple[str, ...] = ()
    is_default: bool = False
    is_up: bool = True
    max_time_min: int | None = 7 * _DAY_MIN
    default_time_min: int | None = 60
    max_nodes: int | None = None
    priority_tier: int = 10
    is_preemptible: bool = False
    grace_time_s: float = 0
    exclusive: bool = False
    mem_per_cpu_mb: int = 1000
    accounts: tuple[str, ...] = ()
    billing: str = ""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A whole cluster.

    Args:
        cluster: Slurm's ``ClusterName``.
        nodes: The machines.
        partitions: The partitions, in Slurm's order.
        max_array_size: One more than the highest index of a job array.
        allows_requeue: Slurm's ``JobRequeue``: whether jobs are requeued unless they say otherwise.
        accounting: Whether ``sacct`` answers.
        accounts: The accounts that exist; empty: any is taken, as where accounting does not enforce them.
        enforces_limits: Slurm's ``EnforcePartLimits``: refuse what is over a partition's limits, instead of
            letting it wait for ever.
        seconds_per_minute: Seconds that a minute of a time limit takes, and of ``--begin``. 60 is real time.
        kill_wait_s: Seconds between SIGTERM and SIGKILL whenever Slurm ends a job.
        requeue_delay_s: Seconds for which a requeued job waits before it may start again.
        min_job_age_s: Seconds for which the queue remembers a job that has ended.
    """

    cluster: str = "fake"
    nodes: tuple[Node, ...] = (Node(name="gpu1"), Node(name="gpu2"))
    partitions: tuple[Partition, ...] = (
        Partition(name="gpu", is_default=True),
        Partition(name="low", priority_tier=1, is_preemptible=True),
        Partition(name="interactive", max_time_min=30, default_time_min=10),
        Partition(name="whole", exclusive=True),
    )
    max_array_size: int = 1001
    allows_requeue: bool = True
    accounting: bool = True
    accounts: tuple[str, ...] = ()
    enforces_limits: bool = False
    seconds_per_minute: float = 60
    kill_wait_s: float = 2
    requeue_delay_s: float = 0.2
    min_job_age_s: float = 300

    def __post_init__(self) -> None:
        names = {node.name for node in self.nodes}
        for partition in self.partitions:
            if unknown := set(partition.nodes) - names:
                raise ValueError(f"partition {partition.name} names nodes that are not there: {sorted(unknown)}")

    def as_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Settings:
        """Read what ``as_json`` has returned."""
        nodes = tuple(Node(**{**node, "features": tuple(node["features"])}) for node in record["nodes"])
        partitions = tuple(
            Partition(**{**part, "nodes": tuple(part["nodes"]), "accounts": tuple(part["accounts"])})
            for part in record["partitions"]
        )
        accounts = tuple(record["accounts"])
        return cls(**{**record, "nodes": nodes, "partitions": partitions, "accounts": accounts})
