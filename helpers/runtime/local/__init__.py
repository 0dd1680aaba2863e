"""A run on this machine: what Slurm does elsewhere."""
