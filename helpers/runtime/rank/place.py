"""Tell which process this is among those that were started together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.runtime.mpi.rank import is_mpirun_rank

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_SPECIAL_STEP = 0xFFFFFFF0  # Slurm's batch and interactive "steps" are numbered from here (slurm.h)


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The place of one process among those started together.

    Args:
        rank: Number of this process, from 0 to ``world_size - 1``.
        local_rank: The same among the processes of this node.
        world_size: Processes in all.
        local_world_size: Processes on this node.
        node_rank: Number of this node, from 0.
    """

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    node_rank: int = 0

    def as_environment(self) -> dict[str, str]:
        """Return the variables that torch, torchrun, Lightning and accelerate read."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "NODE_RANK": str(self.node_rank),
        }


def read_ranks(environment: Mapping[str, str] = os.environ) -> Ranks:
    """Read the ranks that torchrun, our own runner, Open MPI's ``mpirun`` or ``srun`` gave to this process.

    An ``salloc`` shell bears Slurm's variables without being one of several processes: it is rank 0 of 1.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return _from_torchrun(environment)
    if is_mpirun_rank(environment):
        return _from_mpirun(environment)
    if is_srun_task(environment):
        return _from_srun(environment)
    return Ranks()


def _from_torchrun(environment: Mapping[str, str]) -> Ranks:
    world_size = int(environment["WORLD_SIZE"])
    local_world_size = int(environment.get("LOCAL_WORLD_SIZE", world_size))
    rank = int(environment["RANK"])
    return Ranks(
        rank=rank,
        local_rank=int(environment.get("LOCAL_RANK", rank % local_world_size)),
        world_size=world_size,
        local_world_size=local_world_size,
        node_rank=int(environment.get("NODE_RANK", environment.get("GROUP_RANK", rank // local_world_size))),
    )


def _from_mpirun(environment: Mapping[str, str]) -> Ranks:
    rank, local_world_size = int(environment["OMPI_COMM_WORLD_RANK"]), int(environment["OMPI_COMM_WORLD_LOCAL_SIZE"])
    return Ranks(
        rank=rank,
        local_rank=int(environment["OMPI_COMM_WORLD_LOCAL_RANK"]),
        world_size=int(environment["OMPI_COMM_WORLD_SIZE"]),
        local_world_size=local_world_size,
        node_rank=int(environment.get("SLURM_NODEID", rank // local_world_size)),
    )


def is_srun_task(environment: Mapping[str, str]) -> bool:
    """Say whether ``srun`` has started this process, beside which others of its step may run."""
    step = environment.get("SLURM_STEP_ID", "")
    return "SLURM_PROCID" in environment and step.isdigit() and int(step) < _FIRST_SPECIAL_STEP


def _from_srun(environment: Mapping[str, str]) -> Ranks:
    node_rank = int(environment.get("SLURM_NODEID", "0"))
    return Ranks(
        rank=int(environment["SLURM_PROCID"]),
        local_rank=int(environment.get("SLURM_LOCALID", "0")),
        world_size=int(environment.get("SLURM_STEP_NUM_TASKS", environment.get("SLURM_NTASKS", "1"))),
        local_world_size=_tasks_on_node(environment.get("SLURM_STEP_TASKS_PER_NODE", "1"), node_rank),
        node_rank=node_rank,
    )


def _tasks_on_node(spec: str, node_rank: int) -> int:
    """Read Slurm's ``4(x2),3``: four tasks on each of two nodes, then three on one."""
    counts: list[int] = []
    for part in spec.split(","):
        count, _, repeat = part.partition("(x")
        counts += [int(count)] * int(repeat.rstrip(")") or 1)
    return counts[min(node_rank, len(counts) - 1)]
