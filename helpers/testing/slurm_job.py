"""What a test may look at of a job on the fake."""

from __future__ import annotations

from dataclasses import dataclass

FINAL_STATES = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY")


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """What the fake knows of one job, or of one element of an array.

    Args:
        id: As people write it: ``4711``, ``4711_3``.
        number: Its own number.
        name: As the queue shows it.
        state: In Slurm's words.
        reason: Why it waits or how it ended, in Slurm's words.
        nodes: Slurm's node list; empty where it has none.
        partition: Where it waits or runs.
        options: The sbatch options in force, by their long names.
        script: The batch script.
        folder: Where it runs.
        restarts: How many times it has been requeued.
        exit_code: Of its batch script.
        environment: What was exported to it.
    """

    id: str
    number: int
    name: str
    state: str
    reason: str
    nodes: str
    partition: str
    options: dict[str, str]
    script: str
    folder: str
    restarts: int
    exit_code: int
    environment: dict[str, str]
