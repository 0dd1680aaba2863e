"""Requeue again and again, for each kind of ending: ``make soak``, or ``python -m benchmarks.soak CYCLES``.

Each cycle is a job of two ranks on the test cluster for each kind, disturbed at a known step; it has recovered if it
ends with the right value, lost no step (or, where nothing warned it, no more than was not saved), and ran one attempt
more than it was disturbed. Takes about two and a half minutes a cycle on two cores.

It may run in the background: after each cycle it prints how many of how many have recovered, what went wrong goes to
standard error, and stopped by Ctrl-C or SIGTERM it takes down its cluster and prints the table of what it has done.
"""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import Cluster, ClusterSettings
from tests.slurm.faults import RANKS, WHOLE, Disturbed
from tests.slurm.faults_program import HELD_AT, SAVE_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable

_CYCLES = 20
_PREEMPTED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO PREEMPTION")
_PATIENT = (
    "PartitionName=patient Nodes=ALL DefMemPerCPU=1000 MaxTime=7-0 PriorityTier=1 PreemptMode=REQUEUE GraceTime=10"
)


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A way to end a job early.

    Args:
        disturb: Does it, to a job that waits.
        node: The cluster's node on which the job is put: 0 or 1.
        settings: What else the job is submitted with.
        steps_lost: How many steps it may cost.
    """

    disturb: Callable[[Disturbed], object]
    node: int = 0
    settings: dict[str, object] = field(default_factory=dict)
    steps_lost: int = 0


def _requeue(job: Disturbed) -> None:
    job.cluster.run("scontrol", "requeue", job.job_id)


def _signal(name: str) -> Callable[[Disturbed], object]:
    return lambda job: job.cluster.run("scancel", f"--signal={name}", job.job_id)


def _wait(_job: Disturbed) -> None:
    """Do nothing: the time limit comes by itself."""


_KINDS = {
    "preemption": _Kind(disturb=Disturbed.preempt, settings={"partition": "low", "gpus": RANKS}),
    "preemption with a grace": _Kind(disturb=lambda _job: None, settings={"partition": "patient", "gpus": RANKS}),
    "scontrol requeue": _Kind(disturb=_requeue),
    "SIGUSR2": _Kind(disturb=_signal("USR2")),
    "SIGTERM": _Kind(disturb=_signal("TERM")),
    "time limit": _Kind(disturb=_wait, settings={"time": 2}),
    "lost node": _Kind(disturb=Disturbed.lose_node, node=1, steps_lost=HELD_AT - SAVE_EVERY),
}


def main(cycles: int) -> int:
    """Run the cycles; print a line for each as it ends, and a table."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    settings = ClusterSettings(cpus_per_node=64, mem_mb=64_000, kill_wait=30, extra=(_PATIENT,))
    recovered, done, begin = dict.fromkeys(_KINDS, 0), 0, time.monotonic()
    try:
        with Cluster(settings) as cluster, tempfile.TemporaryDirectory() as folder:
            while done < cycles:
                for name, wrong in _cycle(cluster, Path(folder) / str(done)).items():
                    recovered[name] += not wrong
                    if wrong:
                        print(f"cycle {done + 1}: {name}: {wrong}", file=sys.stderr, flush=True)
                done += 1
                counts = ", ".join(f"{name} {count}" for name, count in recovered.items())
                print(f"{done} of {cycles} cycles in {time.monotonic() - begin:.0f} s: {counts}", flush=True)
    finally:
        for name, count in recovered.items():
            print(f"{name:24s} {count} of {done} recovered", flush=True)
    return int(any(count < done for count in recovered.values()))


def _cycle(cluster: Cluster, folder: Path) -> dict[str, str]:
    """Disturb a job of each kind; return what was wrong with it, empty where it has recovered."""
    jobs = {name: _start(cluster, folder, name, kind) for name, kind in _KINDS.items()}
    try:
        wrong = {name: _complaint(job.hold) for name, job in jobs.items()}
        for name, kind in _KINDS.items():
            wrong[name] = wrong[name] or _complaint(partial(kind.disturb, jobs[name]))
        return {name: wrong[name] or _complaint(partial(_judge, jobs[name], kind)) for name, kind in _KINDS.items()}
    finally:
        for job in jobs.values():
            job.abandon()


def _start(cluster: Cluster, folder: Path, name: str, kind: _Kind) -> Disturbed:
    settings = {"partition": "gpu", "slurm": {"nodelist": cluster.nodes[kind.node]}, **kind.settings}
    return Disturbed(cluster, folder / name.replace(" ", "-"), settings).start()


def _judge(job: Disturbed, kind: _Kind) -> None:
    """Hold what came of a job against what it may cost.

    Slurm may preempt a job a second time, as soon as it is back: the one that takes its place may still wait for the
    other victim's GPUs.
    """
    outcome = job.outcome()
    right = outcome.error is None and outcome.value == WHOLE
    disturbed = max(1, len(_PREEMPTED.findall(outcome.log)))
    once = outcome.attempt == disturbed and outcome.in_order
    assert right, outcome
    assert once, outcome
    assert max(outcome.lost) <= kind.steps_lost, outcome


def _complaint(do: Callable[[], object]) -> str:
    """Do something; return what went wrong, in one line, so that the other kinds go on."""
    try:
        do()
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is counted
        return f"{type(error).__name__}: {error}".replace("\n", " | ")
    return ""


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else _CYCLES))
