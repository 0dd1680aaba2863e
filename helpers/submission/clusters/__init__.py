"""The places where a run can go: a Slurm cluster, this machine, this very process."""
