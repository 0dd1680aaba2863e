"""A job of its own inherits nothing of the job it was submitted from."""

import pytest

from helpers.runtime.environment import without_scheduler_variables

KEPT = {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SBATCH_ACCOUNT": "vision", "OMP_NUM_THREADS": "3"}
INSIDE = {"SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    "name",
    [
        *("SLURM_JOB_ID", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_CPU", "SLURM_TRES_PER_TASK", "SLURMD_NODENAME"),
        *("SRUN_DEBUG", "PMI_RANK", "PMIX_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"),
        *("HELPERS_RUN", "HELPERS_ATTEMPT", "HELPERS_END_TIME", "SBATCH_EXPORT", "SBATCH_CPU_BIND"),
    ],
)
def test_what_belongs_to_one_job_is_left_out(name: str) -> None:
    """C10: the inner job took the outer one's id, CPUs and memory; also from a shell that had exported some."""
    assert without_scheduler_variables(KEPT | {name: "1"}) == KEPT


def test_what_belongs_to_the_site_or_the_user_stays() -> None:
    """C10: without SLURM_CONF the inner sbatch finds no controller."""
    assert without_scheduler_variables(KEPT | INSIDE) == KEPT


def test_the_gpus_of_the_job_are_left_out() -> None:
    """They are numbers of another node."""
    assert "CUDA_VISIBLE_DEVICES" not in without_scheduler_variables(INSIDE | {"CUDA_VISIBLE_DEVICES": "0,1"})


def test_the_gpus_that_a_user_chose_stay() -> None:
    """Outside a job they are the user's own choice."""
    assert without_scheduler_variables({"CUDA_VISIBLE_DEVICES": "1"}) == {"CUDA_VISIBLE_DEVICES": "1"}
