"""Clean the environment that a program hands on to a job of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from helpers.runtime.mpi.rank import belongs_to_mpirun
from helpers.runtime.rank.thread_count import is_ours

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIXES = ("SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMI2_", "PMIX_", "SBATCH_CPU_BIND", "SBATCH_MEM_BIND")
_OF_ONE_JOB = frozenset({
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "SUBMITIT_EXECUTOR", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("GPU_DEVICE_ORDINAL", "HELPERS_RUN", "HELPERS_ATTEMPT", "HELPERS_END_TIME", "HELPERS_GPUS"),
    *("HELPERS_THREADS", "SBATCH_EXPORT"),
})  # fmt: skip
_OF_THE_SITE = frozenset({"SLURM_CONF"})  # where Slurm is: without it the inner sbatch finds no controller


def without_scheduler_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what belongs to the job (or the shell's leftovers) it was made in.

    A job inherits the environment of its submission. Submitted from inside another job, or from a shell in
    which ``SLURM_CPUS_PER_TASK`` is set, it would inherit that job's id, CPUs and GPUs. ``SLURM_CONF`` stays,
    and so do the user's ``SBATCH_ACCOUNT`` and its like.
    """
    inside_a_job = "SLURM_JOB_ID" in environment or "HELPERS_RUN" in environment
    kept_anyway = _OF_THE_SITE if inside_a_job else _OF_THE_SITE | {"CUDA_VISIBLE_DEVICES"}
    return {
        name: value
        for name, value in environment.items()
        if name in kept_anyway
        or not (
            name.startswith(_PREFIXES)
            or name in _OF_ONE_JOB
            or is_ours(environment, name)
            or belongs_to_mpirun(environment, name)
        )
    }


def set_where_unset(variables: Mapping[str, str]) -> None:
    """Set in this process what neither the user, a line of ``setup`` nor ``.env`` has set."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)
