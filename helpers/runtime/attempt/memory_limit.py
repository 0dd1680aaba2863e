"""Tell by Slurm's own lines in the batch log that the kernel has ended a process at the job's memory limit.

The set-up and the programs of the batch shell print into the same log, so a word alone proves nothing.
"""

from __future__ import annotations

import re

# slurmstepd, of the cgroup's own count ("oom-kill event(s)", from 23.02 on "oom_kill event"), and srun, of the step's
# tasks whose state is OUT_OF_MEMORY; neither needs to begin a line: what is printed before may lack its line's end
_LINES = re.compile(
    r"slurmstepd\S*: error: Detected \d+ oom[-_]kill event"
    r"|srun: error: \S+: tasks? [\d,\[\]-]+: Out Of Memory"
)


def reached_memory_limit(log: str) -> bool:
    """Say whether Slurm has written into a batch log that a process of the job was killed at the memory limit."""
    return _LINES.search(log) is not None
