"""Start and stop a real Slurm, for tests and for trying things.

One machine plays a controller and two GPU nodes. Nothing outside one temporary folder is written, except
cgroup folders that bear the instance's name; nothing is stopped that was not started here.

    with Cluster(ClusterSettings(accounting=False)) as cluster:
        print(cluster.run("sinfo").stdout)

The files, in reading order: ``settings`` (what can be asked for), ``layout`` (where things lie),
``configuration`` (slurm.conf and its siblings), ``devices`` (fake GPUs), ``cgroups``, ``daemons`` (one
process each), ``startup`` (their order), ``client`` (asking them), ``cluster`` (the whole), ``processes`` and
``teardown`` (the end, also of what a dead process left behind). By hand: ``python -m tests.cluster --help``.
"""

from tests.cluster.availability import why_unavailable
from tests.cluster.cluster import Cluster
from tests.cluster.failure import ClusterError
from tests.cluster.settings import ClusterSettings, ProcessTracking

__all__ = ["Cluster", "ClusterError", "ClusterSettings", "ProcessTracking", "why_unavailable"]
