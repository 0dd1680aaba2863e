"""Record what a run ran on and with, so that its figures can be explained later."""

from __future__ import annotations

import getpass
import os
import platform
import sys
from importlib.metadata import distributions
from typing import TYPE_CHECKING

from helpers.runtime.files import write_json
from helpers.runtime.git import read_git_state
from helpers.runtime.rank.source import changed_since, read_source
from helpers.runtime.raw_data.start import record_raw_data

if TYPE_CHECKING:
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder


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
        "project": _project(description),
        "asked": description.resources,
        "given": _given(),
        "container": description.container or None,
        "raw_data": record_raw_data(run, description.raw_data),
    }
    write_json(run.provenance, record)


def _packages() -> dict[str, str]:
    return dict(sorted((dist.name, dist.version) for dist in distributions()))


def _given() -> dict[str, str]:
    """Return what the scheduler gave, by its own variables."""
    names = ("SLURM_JOB_PARTITION", "SLURM_JOB_NODELIST", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES",
             "SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_NODE", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS")  # fmt: skip
    return {name: os.environ[name] for name in names if name in os.environ}


def _project(description: Description) -> dict[str, str | bool | list[str] | None]:
    """Return the code as it was submitted, and how what this attempt runs differs; a difference is said in the log."""
    source = read_source(description.source)
    if source is None:
        git = read_git_state(description.directory)
        return {"commit": git.commit, "edited": git.edited, "branch": git.branch}
    changed = changed_since(source)
    if changed:
        print(f"[helpers] {changed}", file=sys.stderr)
    return {
        "root": source.root,
        "commit": source.commit,
        "edited": source.edited,
        "untracked": source.untracked,
        "branch": source.branch,
        "snapshot": source.snapshot,
        "without_snapshot": source.without or None,
        "changed_since": changed or None,
    }
