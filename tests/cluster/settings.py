"""What can be asked of a test cluster.

Only what some test varies is a setting; all else is decided in ``configuration``.
"""

from dataclasses import dataclass
from typing import Literal

ProcessTracking = Literal["cgroup", "linuxproc", "pgid"]


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """How one cluster differs from the next.

    Args:
        accounting: Run slurmdbd on a MariaDB, so that ``sacct`` answers.
        proctrack: Who is signalled when a step is: the direct child of slurmstepd (``cgroup``), its process
            group (``pgid``) or the whole tree (``linuxproc``). Only ``cgroup`` limits memory and devices.
        affinity: Bind tasks to CPUs. Then nodes have the machine's own CPUs (see ``configuration``).
        cpus_per_node: CPUs declared for a node, whatever the machine has; of no effect with ``affinity``.
        mem_mb: Memory declared for a node, in MiB.
        max_array_size: One more than the highest index of a job array.
        min_job_age: Seconds for which the controller remembers a job that has ended; at least 2.
        grace_time: Seconds that the steps of a preempted job get before Slurm ends it with SIGTERM and, after
            ``kill_wait``, SIGKILL. Checked now and then: 8 were 14 when measured. 0: ended at once.
        kill_wait: Seconds between SIGTERM and SIGKILL whenever Slurm ends a job.
        slurmd_timeout: Seconds of silence after which a node is down.
        requeue: Whether jobs may be requeued unless they say otherwise (``JobRequeue``).
        extra: Lines appended to ``slurm.conf``.
    """

    accounting: bool = True
    proctrack: ProcessTracking = "cgroup"
    affinity: bool = False
    cpus_per_node: int = 8
    mem_mb: int = 10_000
    max_array_size: int = 1001
    min_job_age: int = 300
    grace_time: int = 0
    kill_wait: int = 5
    slurmd_timeout: int = 300
    requeue: bool = True
    extra: tuple[str, ...] = ()
