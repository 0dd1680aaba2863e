"""Run a job's processes in a container: one small class for each engine."""
