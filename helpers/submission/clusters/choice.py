"""The places where a run can go: a Slurm cluster, this machine, this very process."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from helpers.config.cluster_name import USUAL_CONFIGURATIONS
from helpers.errors import ClusterUnreachable, InvalidRequest
from helpers.submission.clusters.elsewhere import Elsewhere
from helpers.submission.clusters.local import LocalCluster
from helpers.submission.clusters.slurm import SlurmCluster
from helpers.submission.clusters.slurm_program import MISSING, run_slurm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.clusters.slurm_queue import Observation
    from helpers.submission.resources.request import Request
    from helpers.submission.resources.resources import Resources
    from helpers.submission.surroundings import Surroundings


class Queue(Protocol):
    """Where runs are, and can be looked at."""

    @property
    def name(self) -> str:
        """``"slurm"`` or ``"local"``."""

    @property
    def place(self) -> str:
        """Slurm's ClusterName, or the machine's host name."""

    @property
    def answer_serves_s(self) -> float:
        """How long an answer may serve for further questions, in seconds: asking Slurm costs it, and a process."""

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Return how jobs stand; one that is not known any more is left out."""

    def cancel(self, runs: Mapping[str, RunFolder]) -> None:
        """Ask for the end of jobs, waiting or running, by their ids."""


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
        surroundings: Surroundings,
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


def choose_cluster(name: str) -> Cluster:
    """Return the cluster of that name.

    Args:
        name: ``"auto"``, ``"slurm"`` or ``"local"``.

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
    if slurm_is_configured():
        return SlurmCluster()
    return LocalCluster()


def say_no_slurm(call: str) -> None:
    """Say loudly that a call runs here, since there is no Slurm; once it is known that it can.

    Args:
        call: As the caller would write it.
    """
    print(
        f"helpers: NO SLURM ON THIS MACHINE — {call} runs here, on {os.uname().nodename}, as a process of its own.",
        file=sys.stderr,
    )


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


def slurm_is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether this machine belongs to a Slurm cluster, whether or not the cluster answers.

    Raises:
        ClusterUnreachable: If a configuration is named and the commands are missing: a job must not end up
            on the login node because PATH lost a folder.
    """
    return _is_configured(slurm_conf=environment.get("SLURM_CONF"), path=environment.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _is_configured(*, slurm_conf: str | None, path: str) -> bool:
    named = slurm_conf or next((file for file in USUAL_CONFIGURATIONS if Path(file).exists()), None)
    if shutil.which("sbatch", path=path) is None:
        if named is None:
            return False
        raise ClusterUnreachable(
            f"Slurm is configured here ({named}), and there is no sbatch on PATH.",
            hint=MISSING,
        )
    return named is not None or _has_configless_source()


def _has_configless_source() -> bool:
    """Ask Slurm itself: a cluster may hand out its configuration by DNS, with no file on this machine."""
    try:
        done = run_slurm(["scontrol", "ping"], os.environ)
    except ClusterUnreachable:
        return True
    return "Could not establish a configuration source" not in done.stderr
