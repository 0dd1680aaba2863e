"""How samples reach the loop: staging, loaders with a position, prefetching."""
