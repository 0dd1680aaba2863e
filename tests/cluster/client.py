"""Be a client of this cluster only, also from a shell that is inside a job of another one."""

import os

from tests.cluster.availability import search_path

# What Slurm sets in a job, and what redirects or changes its commands.
FOREIGN = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_", "SCONTROL_")


def foreign_variables() -> set[str]:
    """Return the names in this process's environment that belong to another Slurm."""
    return {name for name in os.environ if name.startswith(FOREIGN)}


def client_environment() -> dict[str, str]:
    """Return this process's environment without what is foreign, and with Slurm's commands on ``PATH``."""
    foreign = foreign_variables()
    own = {name: value for name, value in os.environ.items() if name not in foreign}
    return own | {"PATH": search_path()}
