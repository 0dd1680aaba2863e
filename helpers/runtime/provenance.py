"""Record what a run ran on and with, so that its figures can be explained later."""

from __future__ import annotations

import getpass
import os
import platform
import subprocess
import sys
from importlib.metadata import distributions
from typing import TYPE_CHECKING

from helpers.runtime.files import write_json, write_whole

if TYPE_CHECKING:
    from helpers.runtime.description import Description
    from helpers.runtime.run_folder import RunFolder

_GIT_TIMEOUT_S = 20


def record_provenance(run: RunFolder, description: Description) -> None:
    """Write ``provenance.json``: code, packages, machine, and what was asked for and given."""
    record = {
        "run": description.run_id,
        "function": description.function,
        "arguments": description.arguments,
        "user": getpass.getuser(),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "packages": _packages(),
        "project": _project(run, description.directory),
        "asked": description.resources,
        "given": _given(),
    }
    write_json(run.provenance, record)


def _packages() -> dict[str, str]:
    return dict(sorted((dist.name, dist.version) for dist in distributions()))


def _given() -> dict[str, str]:
    """Return what the scheduler gave, by its own variables."""
    names = ("SLURM_JOB_PARTITION", "SLURM_JOB_NODELIST", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES",
             "SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_NODE", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS")  # fmt: skip
    return {name: os.environ[name] for name in names if name in os.environ}


def _project(run: RunFolder, directory: str) -> dict[str, str | bool | None]:
    """Return the commit of the code and whether it was edited since; the edits go into ``changes.diff``."""
    commit = _git(directory, "rev-parse", "HEAD")
    if commit is None:
        return {"commit": None}
    changes = _git(directory, "status", "--porcelain", "--untracked-files=no") or ""
    difference = _git(directory, "diff", "HEAD") if changes else None
    if difference:
        write_whole(run.path / "changes.diff", difference.encode() + b"\n")
    return {"commit": commit, "edited": bool(changes), "branch": _git(directory, "branch", "--show-current")}


def _git(directory: str, *arguments: str) -> str | None:
    command = ["git", "-C", directory, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
