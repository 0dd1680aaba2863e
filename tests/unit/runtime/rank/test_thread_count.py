"""A rank starts no more threads than it has CPUs, and the user's own number stands."""

import pytest

from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.rank.thread_count import count_cpus, limit_threads

READ_BY_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@pytest.mark.parametrize(
    ("environment", "cpus"),
    [
        ({"SLURM_CPUS_PER_TASK": "4"}, 4),
        ({"SLURM_CPUS_PER_TASK": "64"}, 8),  # no more than it may run on
        ({"SLURM_CPUS_ON_NODE": "6", "LOCAL_WORLD_SIZE": "2"}, 3),  # nothing was asked for: its share
        ({"SLURM_CPUS_ON_NODE": "1", "LOCAL_WORLD_SIZE": "2"}, 1),
        ({}, 8),  # outside Slurm the affinity
        ({"LOCAL_WORLD_SIZE": "4"}, 2),  # which the ranks share
    ],
)
def test_threads_follow_the_cpus_of_the_rank(environment: dict[str, str], cpus: int) -> None:
    """Where nothing binds the ranks, each would count the whole machine."""
    variables = limit_threads(environment, usable_cpus=8, quota=None)
    assert {variables[name] for name in READ_BY_LIBRARIES} == {str(cpus)}


def test_the_quota_of_a_container_is_shared_by_its_ranks() -> None:
    """A container of 3 CPUs on a node of 8 shows all 8."""
    assert count_cpus({}, usable_cpus=8, quota=3.5) == 3
    assert count_cpus({"LOCAL_WORLD_SIZE": "2"}, usable_cpus=8, quota=3.5) == 1
    assert count_cpus({"SLURM_CPUS_PER_TASK": "6"}, usable_cpus=8, quota=0.5) == 1


@pytest.mark.parametrize("name", READ_BY_LIBRARIES)
def test_the_users_setting_stands(name: str) -> None:
    """Who sets one of them means it, and the others follow it or were left open on purpose."""
    assert limit_threads({"SLURM_CPUS_PER_TASK": "4", name: "2"}, usable_cpus=8, quota=None) == {}


def test_a_job_that_a_job_submits_does_not_inherit_its_threads() -> None:
    """It has CPUs of its own; a number that the user set goes along."""
    outer = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1"}
    ours = outer | limit_threads(outer, usable_cpus=8, quota=None)
    assert without_scheduler_variables(ours) == {}
    assert without_scheduler_variables(ours | {"OMP_NUM_THREADS": "3"}) == {"OMP_NUM_THREADS": "3"}
