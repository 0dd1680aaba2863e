"""Tell whether a cluster can be started on this machine, before anything is tried."""

import os
import shutil
import sys

BINARIES = ("slurmctld", "slurmd", "slurmdbd", "sacctmgr", "sbatch", "srun", "munged", "mariadbd", "unshare")
CURE = "Install what the cluster is made of with: make slurm-packages"


def why_unavailable() -> str | None:
    """Return why no cluster can be started here, and the cure; ``None`` where one can."""
    if sys.platform != "linux":
        return "The test cluster needs Linux."
    if missing := [name for name in BINARIES if shutil.which(name, path=search_path()) is None]:
        return f"The test cluster needs {', '.join(missing)}, not found here. {CURE}"
    if os.geteuid() != 0:
        return "The test cluster needs root (namespaces, device files, cgroups). Run as root, or in a container."
    return None


def search_path() -> str:
    """Return ``PATH`` with the folders for daemons, which an ordinary user's lacks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
