"""Run on a Slurm cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable, HelpersError
from helpers.runtime.run.element import array_of
from helpers.runtime.run.pointer import point_to_run
from helpers.runtime.run.status import read_ledger
from helpers.submission.clusters import slurm_queue
from helpers.submission.clusters.script import slurm_script
from helpers.submission.inventory.cache import current_inventory
from helpers.submission.inventory.placement import place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.clusters.slurm_executor import RunExecutor
    from helpers.submission.clusters.slurm_queue import Observation
    from helpers.submission.resources.request import Request
    from helpers.submission.resources.resources import Resources
    from helpers.submission.surroundings import Surroundings


class SlurmCluster:
    """The Slurm cluster that ``sbatch`` on this machine speaks to."""

    name = "slurm"
    answer_serves_s = 1.0

    @property
    def place(self) -> str:
        """Slurm's ClusterName; empty where the controller does not answer."""
        try:
            return current_inventory(os.environ.get("SLURM_CONF")).cluster
        except ClusterUnreachable:
            return ""

    def __init__(self) -> None:
        self._executor: RunExecutor | None = None

    def settle(self, request: Request) -> Resources:
        """Choose partition, nodes and the fair share of them, by what the cluster has.

        Raises:
            InvalidRequest: If the job could never run.
            ClusterUnreachable: If the controller does not answer.
        """
        shells = os.environ.get("SBATCH_PARTITION") if request.partition is None else None
        if shells:  # the shell's own choice, which sbatch would have followed
            request = replace(request, partition=shells)
        fit, why = place(request, current_inventory(os.environ.get("SLURM_CONF")))
        return fit.settle(request, chosen={"partition": "SBATCH_PARTITION" if shells else why})

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
        """Return the batch script: submitit's header, our body."""
        from helpers.submission.clusters.slurm_executor import RunExecutor

        self._executor = RunExecutor(run, resources, name=job_name, requeue=requeue, is_array=is_array)
        body = slurm_script(run, resources, surroundings=surroundings, setup=setup, is_array=is_array)
        return self._executor.script_text(body)

    def estimate_start(self, script: str) -> str:
        """Ask ``sbatch --test-only``; empty where the controller does not answer."""
        from helpers.submission.clusters.slurm_executor import estimate_start

        try:
            return estimate_start(script)
        except ClusterUnreachable:
            return ""

    def queue(self, run: RunFolder, *, after: str | None = None) -> str:
        """Hand the script to ``sbatch``, and make the run findable by the id that it gets."""
        if self._executor is None:
            raise AssertionError("the script is written before it is queued")
        cluster = current_inventory(os.environ.get("SLURM_CONF")).cluster  # asked first: once queued, nothing may fail
        job_id = self._executor.queue(*([f"--dependency={after}"] if after else []))
        point_to_run(run, cluster, job_id)
        return job_id

    def queue_again(self, run: RunFolder, script: Path, *options: str, **variables: str) -> str:
        """Hand a script to ``sbatch``, perhaps once more, under a new id."""
        from helpers.submission.clusters.slurm_executor import queue_script

        cluster = current_inventory(os.environ.get("SLURM_CONF")).cluster
        known = None if array_of(run) else {line["job_id"] for line in read_ledger(run)}
        job_id = queue_script(["sbatch"], script, *options, known=known, **variables)
        point_to_run(run, cluster, job_id)
        return job_id

    def queue_array(
        self, run: RunFolder, count: int, max_running: int | None, *, after: str | None = None
    ) -> list[tuple[str, int]]:
        """Queue as few arrays as ``MaxArraySize`` allows; with ``max_running``, one begins when the last has ended.

        If one is refused, those queued before it are cancelled: a sweep is queued whole or not at all.
        """
        if self._executor is None:
            raise AssertionError("the script is written before it is queued")
        inventory = current_inventory(os.environ.get("SLURM_CONF"))
        chunks: list[tuple[str, int]] = []
        for first in range(0, count, inventory.max_array_size):
            size = min(count - first, inventory.max_array_size)
            waits = [after] if after else []
            if chunks and max_running:
                waits.append(f"afterany:{chunks[-1][0]}")
            options = [f"--array=0-{size - 1}" + (f"%{max_running}" if max_running else "")]
            options += [f"--dependency={','.join(waits)}"] if waits else []
            try:
                known = [earlier for earlier, _ in chunks]
                job_id = self._executor.queue(*options, known=known, HELPERS_FIRST_ELEMENT=str(first))
            except HelpersError:
                if chunks:
                    slurm_queue.cancel([earlier for earlier, _ in chunks])
                raise
            point_to_run(run, inventory.cluster, job_id)
            chunks.append((job_id, size))
        return chunks

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Ask ``squeue``, and ``sacct`` for what it has forgotten."""
        return slurm_queue.observe(job_ids)

    def cancel(self, runs: Mapping[str, RunFolder]) -> None:
        """Ask ``scancel`` once; a function without a Checkpointer sees the mark and does not wait for Slurm's KILL."""
        for run in runs.values():
            run.cancel_mark.touch()
        slurm_queue.cancel(list(runs))
