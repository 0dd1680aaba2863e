"""A process finds its place, whoever has started it."""

import pytest

from helpers.runtime.rank.place import Ranks, read_ranks

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"}
SRUN = {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_NTASKS": "99",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
PLACE = Ranks(rank=5, local_rank=1, world_size=8, local_world_size=4, node_rank=1)


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        (TORCHRUN, PLACE),
        (SRUN, PLACE),
        (MPIRUN, PLACE),
        (SRUN | {"SLURM_PROCID": "1", "SLURM_LOCALID": "0"} | MPIRUN, PLACE),
        (PLACE.as_environment(), PLACE),
        (
            SRUN | TORCHRUN | {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0"},
            Ranks(world_size=8, local_world_size=4),
        ),
        ({"RANK": "3", "WORLD_SIZE": "4"}, Ranks(rank=3, local_rank=3, world_size=4, local_world_size=4)),
        ({}, Ranks()),
        ({"RANK": "3"}, Ranks()),
    ],
    ids=[
        "torchrun",
        "srun",
        "mpirun",
        "mpirun below srun",
        "our own",
        "torchrun below srun",
        "bare minimum",
        "neither",
        "half of it",
    ],
)
def test_the_place_is_read_from_whoever_gave_it(environment: dict[str, str], place: Ranks) -> None:
    """Below srun it is torchrun that gives the finer numbers."""
    assert read_ranks(environment) == place


@pytest.mark.parametrize("step", ["4294967290", "4294967291", "4294967292", "", "batch"])
def test_a_shell_inside_an_allocation_is_rank_0_of_1(step: str) -> None:
    """``salloc`` and the batch script bear the variables of srun; 7 others would be waited for, for ever."""
    assert read_ranks(SRUN | {"SLURM_STEP_ID": step}) == Ranks()


@pytest.mark.parametrize(("spec", "node", "tasks"), [("4(x2),3", "2", 3), ("4(x2),3", "0", 4), ("2,1(x3)", "3", 1)])
def test_tasks_of_uneven_nodes_are_counted(spec: str, node: str, tasks: int) -> None:
    """Slurm writes them in short."""
    place = read_ranks(SRUN | {"SLURM_STEP_TASKS_PER_NODE": spec, "SLURM_NODEID": node})
    assert place.local_world_size == tasks
