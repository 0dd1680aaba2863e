"""The places where a run can go: a Slurm cluster, this machine, this very process."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from helpers.errors import ClusterUnreachable, InvalidRequest
from helpers.submission.elsewhere import Elsewhere
from helpers.submission.local_cluster import LocalCluster
from helpers.submission.slurm_cluster import SlurmCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from helpers.runtime.description import Description
    from helpers.runtime.run_folder import RunFolder
    from helpers.submission.request import Request
    from helpers.submission.resources import Resources
    from helpers.submission.slurm_queue import Observation

_PROBE_TIMEOUT_S = 60
_USUAL_CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf",
                         "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf")  # fmt: skip


class Queue(Protocol):
    """Where runs are, and can be looked at."""

    @property
    def name(self) -> str:
        """``"slurm"`` or ``"local"``."""

    @property
    def place(self) -> str:
        """Slurm's ClusterName, or the machine's host name."""

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Return how jobs stand; one that is not known any more is left out."""

    def cancel(self, run: RunFolder, job_id: str) -> None:
        """Ask for the end of a job, waiting or running."""


class Cluster(Queue, Protocol):
    """Where runs go."""

    def settle(self, request: Request) -> Resources:
        """Decide on what the caller leaves open, and refuse what could never run."""

    def script(
        self,
        run: RunFolder,
        resources: Resources,
        *,
        job_name: str,
        setup: Sequence[str],
        requeue: bool,
        is_array: bool = False,
    ) -> str:
        """Return the script of a run, or of each element of an array."""

    def estimate_start(self, script: str) -> str:
        """Say when a job of this script would start, if it were queued now; empty where nobody can tell."""

    def queue(self, run: RunFolder, *, after: str | None = None) -> str:
        """Start a run whose folder is complete, and return the job's id."""

    def queue_array(
        self, run: RunFolder, count: int, max_running: int | None, *, after: str | None = None
    ) -> list[tuple[str, int]]:
        """Start the elements of an array, all or none; return the id of each part and how many are in it."""


def choose_cluster(name: str, *, call: str) -> Cluster:
    """Return the cluster of that name.

    Args:
        name: ``"auto"``, ``"slurm"`` or ``"local"``.
        call: How the caller would write the same call, for the hints.

    Raises:
        InvalidRequest: If the name is none of these.
        ClusterUnreachable: If Slurm is asked for, or configured, and does not answer.
    """
    if name == "local":
        return LocalCluster()
    if name == "slurm":
        return SlurmCluster()
    if name != "auto":
        raise InvalidRequest(f"cluster is 'auto', 'slurm', 'local' or 'inline'; got {name!r}.", hint='cluster="auto"')
    if slurm_is_configured(os.environ.get("SLURM_CONF"), os.environ.get("PATH", "")):
        return SlurmCluster()
    print(
        f"helpers: NO SLURM ON THIS MACHINE — {call} runs here, on {os.uname().nodename}, as a process of its own.",
        file=sys.stderr,
    )
    return LocalCluster()


def queue_of(description: Description) -> Queue | None:
    """Return where a run is; None for one that ran in its caller's process.

    Seen from another machine or another cluster, its folder is all that is known of it: there the same id is
    another job.
    """
    known: dict[str, Cluster] = {"slurm": SlurmCluster(), "local": LocalCluster()}
    here = known.get(description.cluster)
    if here is None or description.place in {"", here.place}:
        return here
    return Elsewhere(description.cluster, description.place)


@functools.lru_cache(maxsize=8)
def slurm_is_configured(slurm_conf: str | None, path: str) -> bool:
    """Say whether this machine belongs to a Slurm cluster, whether or not the cluster answers.

    Raises:
        ClusterUnreachable: If a configuration is named and the commands are missing: a job must not end up
            on the login node because PATH lost a folder.
    """
    named = slurm_conf or next((file for file in _USUAL_CONFIGURATIONS if Path(file).exists()), None)
    if shutil.which("sbatch", path=path) is None:
        if named is None:
            return False
        raise ClusterUnreachable(
            f"Slurm is configured here ({named}), and there is no sbatch on PATH.",
            hint='module load slurm; or, to run on this machine on purpose: cluster="local"',
        )
    return named is not None or _has_configless_source()


def _has_configless_source() -> bool:
    """Ask Slurm itself: a cluster may hand out its configuration by DNS, with no file on this machine."""
    try:
        done = subprocess.run(
            ["scontrol", "ping"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return "Could not establish a configuration source" not in done.stderr
