"""The cluster's memory: its nodes and all its jobs, and how to find them."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from helpers.testing.controller.notation.hostlists import expand

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from helpers.testing.controller.jobs import Job
    from helpers.testing.settings import Node, Partition, Settings

INVALID_ID = "Invalid job id specified"
VERSION = "22.05.8"
"""The Slurm that the fake plays."""


class Cluster:
    """Nodes, jobs and switches.

    Args:
        settings: What the cluster is made of.
        folder: Where its files lie.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.jobs: list[Job] = []
        self.accounted: list[Job] = []
        self.node_states: dict[str, str] = {}
        self.next_id = 1
        self.is_held = False
        self.held_because = "Priority"
        self.is_silent = False
        self.calls: list[dict[str, object]] = []
        self.began = time.time()

    @property
    def nodes(self) -> dict[str, Node]:
        """The machines by name."""
        return {node.name: node for node in self.settings.nodes}

    def partition(self, name: str) -> Partition | None:
        """Return the partition of that name."""
        return next((part for part in self.settings.partitions if part.name == name), None)

    def default_partition(self) -> Partition | None:
        """Return the one that takes the jobs that ask for none."""
        return next((part for part in self.settings.partitions if part.is_default), None)

    def nodes_of(self, partition: Partition) -> list[Node]:
        """Return a partition's machines."""
        return [node for node in self.settings.nodes if not partition.nodes or node.name in partition.nodes]

    def is_usable(self, node: str) -> bool:
        """Say whether a node takes jobs."""
        return self.node_states.get(node, "") == ""

    def take_id(self) -> int:
        """Return the next job id."""
        self.next_id += 1
        return self.next_id - 1

    def active(self) -> list[Job]:
        """Return the jobs that hold nodes."""
        return [job for job in self.jobs if job.is_active]

    def find(self, text: str) -> list[Job]:
        """Return the jobs that an id means: one, an element, several elements, or a whole array."""
        match = re.fullmatch(r"(\d+)(?:_(\d+|\*|\[[\d,:%-]+\]))?", text.strip())
        if match is None:
            return []
        number, elements = int(match[1]), match[2]
        if elements is None or elements == "*":
            whole = [job for job in self.jobs if job.array == number]
            return whole or [job for job in self.jobs if str(number) in job.is_called]
        wanted = set(expand(f"x{elements}")) if elements.startswith("[") else {f"x{elements}"}
        return [job for job in self.jobs if job.array == number and f"x{job.task}" in wanted]

    def is_known(self, text: str) -> bool:
        """Say whether an id has been given to a job that is still known."""
        base = text.partition("_")[0]
        return any(str(job.array or job.number) == base or str(job.number) == base for job in self.jobs)

    def forget_old(self, now: float) -> None:
        """Leave to accounting what has ended long ago."""
        oldest = now - self.settings.min_job_age_s
        old = [job for job in self.jobs if job.is_final and (job.ended or now) <= oldest]
        self.accounted += old
        self.drop(old)

    def drop(self, jobs: Iterable[Job]) -> None:
        """Forget these jobs."""
        gone = {id(job) for job in jobs}
        self.jobs = [job for job in self.jobs if id(job) not in gone]
