"""Run on a Slurm cluster."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

from helpers.runtime.pointer import point_to_run
from helpers.submission import slurm_queue
from helpers.submission.script import slurm_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from helpers.runtime.run_folder import RunFolder
    from helpers.submission.resources import Resources
    from helpers.submission.slurm_executor import RunExecutor
    from helpers.submission.slurm_queue import Observation


class SlurmCluster:
    """The Slurm cluster that ``sbatch`` on this machine speaks to."""

    name = "slurm"

    def __init__(self) -> None:
        self._executor: RunExecutor | None = None

    def script(
        self, run: RunFolder, resources: Resources, *, job_name: str, setup: Sequence[str], requeue: bool
    ) -> str:
        """Return the batch script: submitit's header, our body."""
        from helpers.submission.slurm_executor import RunExecutor

        self._executor = RunExecutor(run, resources, name=job_name, requeue=requeue)
        body = slurm_script(run, resources, python=sys.executable, setup=setup)
        return self._executor.script_text(body)

    def queue(self, run: RunFolder) -> str:
        """Hand the script to ``sbatch``, and make the run findable by the id that it gets."""
        if self._executor is None:
            raise AssertionError("the script is written before it is queued")
        job_id = self._executor.queue()
        point_to_run(run, _cluster_name(os.environ.get("SLURM_CONF")), job_id)
        return job_id

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Ask ``squeue``, and ``sacct`` for what it has forgotten."""
        return slurm_queue.observe(job_ids)

    def cancel(self, run: RunFolder, job_id: str) -> None:  # noqa: ARG002 -- the id is enough for Slurm
        """Ask ``scancel``."""
        slurm_queue.cancel([job_id])


@functools.lru_cache(maxsize=8)
def _cluster_name(slurm_conf: str | None) -> str:  # noqa: ARG001 -- another configuration, another cluster
    return slurm_queue.cluster_name()
