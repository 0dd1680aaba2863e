"""Run Python functions as Slurm GPU jobs, and lose nothing when they are stopped.

The names load on first use, so that ``import helpers`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Executor": "helpers.submission.submit",
    "Job": "helpers.submission.jobs.job",
    "JobArray": "helpers.submission.jobs.array",
    "Preview": "helpers.submission.submit",
    "Run": "helpers.runtime.current",
    "attach": "helpers.submission.jobs.attach",
    "attach_array": "helpers.submission.jobs.array",
    "call": "helpers.submission.sweep",
    "current_run": "helpers.runtime.current",
    "export_tf_config": "helpers.runtime.rank.tensorflow",
    "grid": "helpers.submission.sweep",
    "submit": "helpers.submission.submit",
    "submit_array": "helpers.submission.submit",
    "submit_command": "helpers.submission.command",
    **dict.fromkeys(
        (
            "ClusterUnreachable", "DependencyFailed", "EnvironmentMismatch", "HelpersError", "InvalidRequest",
            "GpuOutOfMemory",
            "JobCancelled", "JobError", "JobExited", "JobFailed", "JobFacts", "JobKilled", "JobLost", "JobOutOfMemory",
            "JobPreempted", "NodeFailed", "RawDataChanged", "Rejected", "ResultNotLoaded", "ResultNotSaved",
            "SetupFailed", "TimeLimitReached",
        ),
        "helpers.errors",
    ),
}  # fmt: skip

__all__ = sorted(_HOME)  # noqa: PLE0605 -- the table is the one list of public names
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'helpers' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
