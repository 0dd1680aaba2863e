"""What a rank that mpirun has started does otherwise."""

from pathlib import Path

from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.mpi.daemon import daemon_file
from helpers.runtime.mpi.rank import as_srun_would
from helpers.runtime.run.folder import AttemptFolder

RANK = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}


def test_slurms_variables_name_the_rank_and_not_the_daemon() -> None:
    """JobEnvironment of submitit reads them; all ranks of a node inherit those of one process."""
    assert as_srun_would(RANK | {"SLURM_PROCID": "1", "SLURM_LOCALID": "0"}) == {
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
    }
    assert as_srun_would(RANK) == {}
    assert as_srun_would({"SLURM_PROCID": "1"}) == {}


def test_a_job_that_a_rank_submits_does_not_believe_to_be_one_of_its_ranks() -> None:
    """What mpirun gave the rank is left out; outside MPI the user's own settings of Open MPI stay."""
    chosen = {"OMPI_MCA_btl": "tcp,self"}
    assert without_scheduler_variables(RANK | {"PMIX_RANK": "3", "OMPI_MCA_ess": "pmi", "HOME": "/"}) == {"HOME": "/"}
    assert without_scheduler_variables(chosen) == chosen


def test_a_node_finds_its_daemon_with_and_without_its_domain() -> None:
    """Slurm's name for a node and mpirun's may differ in that."""
    attempt = AttemptFolder(Path("attempts/0"))
    assert daemon_file(attempt, "gpu1.cluster.example") == daemon_file(attempt, "gpu1")
    assert daemon_file(attempt, "10.0.0.1") != daemon_file(attempt, "10.0.0.2")
