"""Choose how the ranks of an MPI program are started."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable, InvalidRequest
from helpers.runtime.mpi.rank import MPIRUN
from helpers.submission.clusters.slurm_program import run_slurm

if TYPE_CHECKING:
    from helpers.submission.resources.settings import CompleteSettings

_BRING_ALONG = ("setup", "modules", "environment")  # each may have mpirun, on the node
_PMIX = "pmix"
_TIMEOUT_S = 30


def read_launcher(complete: CompleteSettings, *, cluster: str) -> str:
    """Return how MPI's ranks are started: ``"pmix"`` or ``"pmi2"`` by ``srun``, or ``"mpirun"``; empty inline.

    The setting ``mpi`` decides; else ``srun`` with PMIx, where this Slurm can load it, which its list of plug-ins
    does not tell (Debian 12 lists it and ships no library for it); else ``mpirun``.

    Args:
        complete: The call's keywords, with the settings.
        cluster: ``"slurm"``, ``"local"`` or ``"inline"``.

    Raises:
        InvalidRequest: For another launcher; where nothing starts MPI here; and for ``mpirun`` with a container.
    """
    asked = complete.values["launcher"]
    if asked != "mpi":
        raise InvalidRequest(
            f"launcher is 'mpi', or left out: then srun starts the processes; got {asked!r}.", hint='launcher="mpi"'
        )
    if cluster == "inline":
        return ""  # this one process, which MPI begins as one of one
    way = _choose(complete, cluster)
    if way == MPIRUN:
        _check_mpirun(complete)
    return way


def _choose(complete: CompleteSettings, cluster: str) -> str:
    chosen = complete.values.get("mpi")
    if cluster != "slurm":  # there is no srun
        return MPIRUN
    if chosen is not None:
        return str(chosen)
    return _PMIX if _srun_loads(_PMIX) else MPIRUN


def _srun_loads(plugin: str) -> bool:
    """Ask ``srun``; it loads the plug-in before it asks for anything, and says so where it cannot."""
    command = ["srun", f"--mpi={plugin}", "--test-only", "--ntasks=1", "true"]
    try:
        done = run_slurm(command, os.environ)
    except ClusterUnreachable:
        return False
    return "MPI" not in done.stderr and "mpi/" not in done.stderr


def _check_mpirun(complete: CompleteSettings) -> None:
    if complete.values.get("container") is not None:
        raise InvalidRequest(
            "launcher='mpi' starts the ranks by mpirun here, which does not reach into a container.",
            hint="HELPERS_MPI=pmix (or pmi2), where the cluster's srun has it: srun --mpi=list",
        )
    if any(complete.values.get(name) for name in _BRING_ALONG):
        return
    if shutil.which(MPIRUN) is None:
        raise InvalidRequest(
            "launcher='mpi': there is no mpirun on PATH, and srun cannot start MPI's ranks here.",
            hint='setup=["module load openmpi"]',
        )
    try:
        words = subprocess.run(
            [MPIRUN, "--version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        words = str(error)
    if "Open MPI" not in words and "OpenRTE" not in words:
        raise InvalidRequest(
            f"launcher='mpi' knows the mpirun of Open MPI; the one on PATH says {words.strip().splitlines()[:1]}.",
            hint="HELPERS_MPI=pmi2 lets srun start its ranks",
        )
