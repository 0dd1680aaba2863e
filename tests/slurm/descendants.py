"""What the tests of a job's descendants submit, and who of them is still alive."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.slurm.processes import processes_of_jobs

if TYPE_CHECKING:
    import psutil

    from tests.cluster import Cluster

KINDS: dict[str, dict[str, Any]] = {"child": {}, "group": {"process_group": 0}, "session": {"start_new_session": True}}
_NAME = "WHICH_DESCENDANT"


def start_some_and_wait(file: str) -> None:
    """Start a plain child, one in a process group and one in a session of its own; write down our id, and wait."""
    for name, how in KINDS.items():
        subprocess.Popen(["sleep", "600"], env={**os.environ, _NAME: name}, **how)
    Path(f"{file}.new").write_text(str(os.getpid()))
    Path(f"{file}.new").rename(file)
    time.sleep(600)


def alive(cluster: Cluster, job: str) -> dict[str, psutil.Process]:
    """Return those of a job that are, by name."""
    found = processes_of_jobs(cluster, job)
    return {environment[_NAME]: process for process, environment in found if _NAME in environment}
