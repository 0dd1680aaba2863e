"""What the fake knows of a job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import words

if TYPE_CHECKING:
    from helpers.testing.controller.steps import Step

FINAL = frozenset({
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL",
})  # fmt: skip
COMPACT = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F", "CANCELLED": "CA",
    "TIMEOUT": "TO", "PREEMPTED": "PR", "NODE_FAIL": "NF", "OUT_OF_MEMORY": "OOM", "SUSPENDED": "S",
}  # fmt: skip


@dataclass
class Dependency:
    """One entry of ``--dependency``."""

    kind: str
    job: str
    state: str = "unfulfilled"


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


@dataclass(kw_only=True, eq=False)
class Job:
    """One job, or one element of an array; ``number`` is its own, once it has one."""

    number: int
    name: str
    options: dict[str, str]
    demand: Demand
    script: str
    command: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    user: str
    account: str
    submitted: float
    array: int | None = None
    task: int | None = None
    throttle: int = 0
    task_ids: list[int] = field(default_factory=list)
    requeue: bool = True
    held: str = ""
    kills_invalid_dependency: bool = False
    dependencies: list[Dependency] = field(default_factory=list)
    begin: float = 0.0
    state: str = "PENDING"
    reason: str = "None"
    waited_for: str = "None"
    started: float | None = None
    ended: float | None = None
    nodes: list[str] = field(default_factory=list)
    gpus: dict[str, list[int]] = field(default_factory=dict)
    restarts: int = 0
    wait_status: int = 0
    attempt: int = 0
    next_step: int = 0
    steps: list[Step] = field(default_factory=list)
    ended_steps: list[Step] = field(default_factory=list)
    batch_pid: int | None = None
    streams: tuple[int, int] | None = None
    sessions: set[int] = field(default_factory=set)
    ending: str = ""
    requeues: bool = False
    clock: tuple[float, float, float] = (0.0, 0.0, 1.0)
    history: list[dict[str, Any]] = field(default_factory=list)
    signal: tuple[str, int, bool] | None = None
    comment: str = ""
    launch: Callable[[], None] | None = None

    @property
    def is_final(self) -> bool:
        """Whether it has ended for good."""
        return self.state in FINAL

    @property
    def is_active(self) -> bool:
        """Whether it holds nodes."""
        return self.state in {"RUNNING", "COMPLETING"}

    @property
    def id(self) -> str:
        """Its id as people write it."""
        return str(self.number) if self.array is None else f"{self.array}_{self.task}"

    @property
    def is_called(self) -> set[str]:
        """All names by which it is meant."""
        names = {self.id}
        if self.array is None or self.started is not None:
            names.add(str(self.number))
        return names

    def elapsed_s(self, now: float | None = None) -> float:
        """Return for how long it has run, in the fake's time."""
        if self.started is None:
            return 0.0
        since, base, speed = self.clock
        end = self.ended if self.ended is not None else (now or time.time())
        return base + max(0.0, end - since) * speed

    def limit_s(self) -> float | None:
        """Return its time limit in the fake's seconds."""
        return self.demand.time_min * 60 if self.demand.time_min else None

    def end_time(self) -> float | None:
        """Return when it has ended, or when it reaches its limit, in real time."""
        if self.ended is not None or self.started is None:
            return self.ended
        limit = self.limit_s()
        return None if limit is None else time.time() + max(0.0, limit - self.elapsed_s()) / self.clock[2]

    def log(self, kind: str) -> str:
        """Return the path of its log."""
        pattern = self.options.get(kind) or self.options.get("output")
        if pattern is None:
            pattern = "slurm-%j.out" if self.array is None else "slurm-%A_%a.out"
        values = {
            "j": self.number, "J": self.number, "A": self.array or self.number, "x": self.name, "u": self.user,
            "a": words.NO_TASK if self.task is None else self.task, "N": self.nodes[0] if self.nodes else "",
            "n": 0, "t": 0, "s": "batch",
        }  # fmt: skip
        return os.path.join(self.folder, words.log_name(pattern, values))
