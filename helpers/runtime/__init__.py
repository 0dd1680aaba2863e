"""Runs inside the job, without torch: ranks, signals, attempts, requeue, the run folder."""
