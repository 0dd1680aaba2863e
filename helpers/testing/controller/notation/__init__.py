"""How Slurm writes things, and reads what people write: options, times, memory, GPUs, lists of hosts, arrays."""
