"""What the scaling benchmark runs in each of its jobs."""
