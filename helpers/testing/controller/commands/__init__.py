"""The commands, a module each: it reads the words, asks or changes the cluster, and answers as Slurm's own does."""
