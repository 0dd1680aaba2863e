"""How fast training becomes with more GPUs, as the guides measure it, and whether the figure means anything."""
