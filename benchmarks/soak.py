"""Requeue again and again, for each kind of ending: ``make soak``, or ``python -m benchmarks.soak CYCLES``.

Each cycle is a job of two ranks on the test cluster that is disturbed once at a known step; it has recovered if
it ends with the right value, lost no step (or, where nothing warned it, no more than was not saved), and ran
each step once. Takes about two minutes a cycle on two cores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import Cluster, ClusterSettings
from tests.slurm.faults import RANKS, WHOLE, Disturbed, Outcome
from tests.slurm.faults_program import HELD_AT, SAVE_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable

_CYCLES = 20


def _lose_node(job: Disturbed) -> None:
    job.cluster.set_node_state(job.node, "DOWN")
    job.cluster.set_node_state(job.node, "RESUME")


_KINDS: dict[str, Callable[[Disturbed], object]] = {
    "preemption": lambda job: job.preempt(),
    "scontrol requeue": lambda job: job.cluster.run("scontrol", "requeue", job.job_id),
    "SIGUSR2": lambda job: job.cluster.run("scancel", "--signal=USR2", job.job_id),
    "SIGTERM": lambda job: job.cluster.run("scancel", "--signal=TERM", job.job_id),
    "lost node": _lose_node,
}


def main(cycles: int) -> int:
    """Run the cycles and print a line for each kind."""
    recovered = dict.fromkeys(_KINDS, 0)
    begin = time.monotonic()
    settings = ClusterSettings(cpus_per_node=64, mem_mb=64_000, kill_wait=30)
    with Cluster(settings) as cluster, tempfile.TemporaryDirectory() as folder:
        for number in range(cycles):
            for name, outcome in _cycle(cluster, Path(folder) / str(number)).items():
                well = _has_recovered(outcome, HELD_AT - SAVE_EVERY if name == "lost node" else 0)
                recovered[name] += well
                if not well:
                    print(f"{name}: {outcome}", file=sys.stderr, flush=True)
            print(f"cycle {number + 1} of {cycles}: {recovered}", file=sys.stderr, flush=True)
    for name, count in recovered.items():
        print(f"{name:20s} {count} of {cycles} recovered")
    print(f"in {time.monotonic() - begin:.0f} s")
    return int(any(count < cycles for count in recovered.values()))


def _cycle(cluster: Cluster, folder: Path) -> dict[str, Outcome]:
    first, second = cluster.nodes
    jobs = {}
    for name in _KINDS:
        settings: dict[str, object] = {"slurm": {"nodelist": second if name == "lost node" else first}}
        settings |= {"partition": "low", "gpus": RANKS} if name == "preemption" else {"partition": "gpu"}
        jobs[name] = Disturbed(cluster, folder / name.replace(" ", "-"), settings).start()
    for job in jobs.values():
        job.hold()
    for name, disturb in _KINDS.items():
        disturb(jobs[name])
    return {name: job.outcome() for name, job in jobs.items()}


def _has_recovered(outcome: Outcome, allowed: int) -> bool:
    right = outcome.error is None and outcome.value == WHOLE
    return right and max(outcome.lost) <= allowed and outcome.attempts == [0, 1] and outcome.in_order


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else _CYCLES))
