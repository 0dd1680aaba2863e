"""Read ``--dependency``, and say whether it is fulfilled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from helpers.testing.controller.jobs import Dependency

if TYPE_CHECKING:
    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.controller.jobs import Job

_KINDS = {"after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer"}


def read_dependencies(text: str) -> list[Dependency] | None:
    """Return the entries; None where Slurm would refuse them."""
    found: list[Dependency] = []
    for entry in re.split(r"[,?]", text):
        kind, colon, ids = entry.partition(":")
        if kind == "singleton":
            found.append(Dependency(kind=kind, job=""))
            continue
        if kind not in _KINDS or not colon:
            return None
        for job in ids.split(":"):
            number = job.partition("+")[0]
            if not re.fullmatch(r"\d+(_(\d+|\*))?", number):
                return None
            if all((known.kind, known.job) != (kind, number) for known in found):
                found.append(Dependency(kind=kind, job=number))
    return found


def look(cluster: Cluster, job: Job) -> None:
    """Bring the entries of a waiting job up to date."""
    for entry in job.dependencies:
        if entry.state == "unfulfilled":
            entry.state = _state(cluster, job, entry)


def describe(job: Job) -> str:
    """Return them as scontrol shows them; what is fulfilled is not shown any more."""
    shown = [entry for entry in job.dependencies if entry.state != "fulfilled"]
    texts = [f"{e.kind}:{e.job}({e.state})" if e.job else f"{e.kind}({e.state})" for e in shown]
    return ",".join(texts) or "(null)"


def _state(cluster: Cluster, job: Job, entry: Dependency) -> str:
    if entry.kind == "singleton":
        others = [other for other in cluster.jobs if other.name == job.name and other.submitted < job.submitted]
        return "fulfilled" if all(other.is_final for other in others) else "unfulfilled"
    waited_for = cluster.find(entry.job)
    if entry.kind == "aftercorr" and job.task is not None:
        waited_for = [other for other in waited_for if other.task == job.task]
    if entry.kind == "after":
        return "fulfilled" if all(other.started is not None or other.is_final for other in waited_for) else entry.state
    if not all(other.is_final for other in waited_for):
        failed_early = entry.kind == "afterok" and any(
            other.is_final and other.state != "COMPLETED" for other in waited_for
        )
        return "failed" if failed_early else "unfulfilled"
    if entry.kind in {"afterok", "aftercorr"}:
        succeeded = all(other.state == "COMPLETED" for other in waited_for)
        return "fulfilled" if succeeded else "failed"
    if entry.kind == "afternotok":
        succeeded = all(other.state == "COMPLETED" for other in waited_for)
        return "failed" if succeeded else "fulfilled"
    return "fulfilled"
