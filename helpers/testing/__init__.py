"""A fake Slurm, for tests of code that submits jobs: public.

The fixture ``fake_slurm`` puts executables called ``sbatch``, ``squeue``, ``sacct``, ``scancel``, ``scontrol``,
``sinfo`` and ``srun`` first on PATH. They answer as Slurm 22.05 does, and jobs really run, as processes of this
machine: the code under test is the same as on a cluster. Only ``plugin`` imports pytest.

In reading order: ``plugin`` (the fixtures), ``fake_slurm`` (the cluster as tests hold it), ``slurm_job`` (a job of it),
``settings`` (what it is made of), ``shim`` (what the executables run), ``controller_process`` and ``controller`` (the
process that answers them). Beside it: ``faults``, which needs no Slurm, fake or real.
"""

from helpers.testing.controller_process import COMMANDS
from helpers.testing.fake_slurm import FakeSlurm
from helpers.testing.settings import Node, Partition, Settings
from helpers.testing.slurm_job import SlurmJob

__all__ = ["COMMANDS", "FakeSlurm", "Node", "Partition", "Settings", "SlurmJob"]
