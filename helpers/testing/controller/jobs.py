"""What the fake knows of a job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.testing.controller.notation.hostlists import compress, ranges
from helpers.testing.controller.notation.log_names import NO_TASK, log_name
from helpers.testing.slurm_job import FINAL_STATES

if TYPE_CHECKING:
    from helpers.testing.controller.demand import Demand
    from helpers.testing.controller.step import Step

COMPACT = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F", "CANCELLED": "CA",
    "TIMEOUT": "TO", "PREEMPTED": "PR", "NODE_FAIL": "NF", "OUT_OF_MEMORY": "OOM", "SUSPENDED": "S",
}  # fmt: skip


@dataclass
class Dependency:
    """One entry of ``--dependency``.

    Args:
        kind: ``afterok``, ``afterany`` and so on.
        job: The id that is waited for; empty for ``singleton``.
        state: ``unfulfilled``, ``fulfilled`` or ``failed``.
    """

    kind: str
    job: str
    state: str = "unfulfilled"


@dataclass(kw_only=True, eq=False)
class Job:
    """One job, or one element of an array.

    Args:
        number: Its own, once it has one; of an element that has not started the array's.
        name: As the queue shows it.
        options: The sbatch options in force, by their long names.
        demand: What it asks for.
        script: The batch script.
        command: The script's path, or ``(null)``.
        arguments: Given to the script.
        folder: Where it runs.
        environment: What was exported to it.
        user: Whose it is.
        account: What it is accounted to.
        submitted: In seconds since the epoch, as all moments here.
        array: Of an element: the array's id.
        task: Of an element: its index.
        throttle: Of an element: how many may run at a time; 0 for all.
        task_ids: Of an element: the indices of its array.
        requeue: Whether it may be requeued.
        held: Slurm's reason where somebody holds it; empty where nobody does.
        kills_invalid_dependency: Whether it is cancelled where it can never start.
        dependencies: What it waits for.
        begin: The moment before which it may not start; 0 for none.
        state: In Slurm's words.
        reason: Why it waits or how it ended, in Slurm's words.
        waited_for: The last reason for which it waited.
        started: When this attempt began.
        ended: When it ended.
        nodes: The names of those that it holds or held.
        gpus: The numbers of its GPUs, by node.
        restarts: How many times it has been requeued.
        wait_status: What ``wait`` returned of its batch script.
        attempt: Counts its starts.
        next_step: The number of its next step.
        steps: Those that run.
        ended_steps: Those that do not any more.
        batch_pid: The process of its batch script.
        streams: Output and errors of its batch script.
        sessions: The sessions of its processes.
        ending: The state that it is to end in, once that is decided; empty before.
        requeues: Whether it waits again at its end.
        clock: A moment, the seconds that it had run by then, and how fast its time goes since.
        history: Its earlier attempts, as accounting keeps them.
        signal: The signal's name, seconds before the limit, and whether it is for the batch shell.
        comment: Its comment.
        launch: Of a job without a script: starts its one step.
    """

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
        return self.state in FINAL_STATES

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
            "a": NO_TASK if self.task is None else self.task, "N": self.nodes[0] if self.nodes else "",
            "n": 0, "t": 0, "s": "batch",
        }  # fmt: skip
        return os.path.join(self.folder, log_name(pattern, values))

    def record(self) -> dict[str, Any]:
        """Return what accounting keeps of this attempt."""
        return {
            "state": self.state,
            "reason": self.waited_for,
            "wait_status": 0,
            "nodes": compress(self.nodes),
            "started": self.started,
            "ended": self.ended,
            "elapsed": self.elapsed_s(),
        }


def waiting_elements(jobs: list[Job], job: Job) -> str:
    """Return the elements of an array that wait with this one: ``2-5%2``."""
    together = [one for one in jobs if one.array == job.array and one.started is None and one.state == job.state]
    numbers = sorted(one.task for one in together if one.task is not None)
    return ranges(numbers) + (f"%{job.throttle}" if job.throttle else "")
