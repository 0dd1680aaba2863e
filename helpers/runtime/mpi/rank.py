"""What a rank knows of MPI: its place, by Open MPI's variables, and how it is left."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MPIRUN = "mpirun"
"""The launcher's way in which Open MPI's own daemons start the ranks; ``pmix`` and ``pmi2`` are srun's."""

_RANK = "OMPI_COMM_WORLD_RANK"
_OF_ONE_JOB = ("OMPI_", "PRTE_", "PMIX_")
_FINALIZE_S = 60


def is_mpirun_rank(environment: Mapping[str, str]) -> bool:
    """Say whether Open MPI's ``mpirun`` has started this process."""
    return _RANK in environment


def belongs_to_mpirun(environment: Mapping[str, str], name: str) -> bool:
    """Say whether a variable is one that ``mpirun`` has given to this rank, and no choice of the user's."""
    return is_mpirun_rank(environment) and name.startswith(_OF_ONE_JOB)


def as_srun_would(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a rank that ``mpirun`` has started as ``srun`` would have set them.

    submitit's ``JobEnvironment`` and many programs read these, and in the environment are those of the daemon.
    """
    if not is_mpirun_rank(environment) or "SLURM_PROCID" not in environment:
        return {}
    return {"SLURM_PROCID": environment[_RANK], "SLURM_LOCALID": environment["OMPI_COMM_WORLD_LOCAL_RANK"]}


def has_begun() -> bool:
    """Say whether this process is in MPI: it has begun it, and not ended it."""
    module = sys.modules.get("mpi4py.MPI")
    return module is not None and module.Is_initialized() and not module.Is_finalized()


def finalize() -> None:
    """End MPI where the function has begun it: a rank that leaves without that is to ``mpirun`` one that has died.

    It waits for the other ranks, for at most a minute: this one has reported how it ended.
    """
    if not has_begun():
        return
    patience = threading.Timer(_FINALIZE_S, os._exit, args=(0,))
    patience.daemon = True
    patience.start()
    sys.modules["mpi4py.MPI"].Finalize()
