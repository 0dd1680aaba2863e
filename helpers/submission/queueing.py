"""Write a plan's run folder, hand it to the queue, and return what its caller holds."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from helpers.errors import ClusterUnreachable, InvalidRequest, Rejected
from helpers.runtime.run.status import record_attempt
from helpers.submission.clusters.setup_lines import check_syntax
from helpers.submission.jobs.array import watch_array
from helpers.submission.jobs.glance import glance
from helpers.submission.jobs.job import Job
from helpers.submission.jobs.watcher import watcher

if TYPE_CHECKING:
    from helpers.submission.clusters.choice import Cluster
    from helpers.submission.jobs.array import JobArray
    from helpers.submission.plan import Plan


def write_script(plan: Plan, cluster: Cluster) -> str:
    """Return the script of a job, or of each element of an array.

    Raises:
        InvalidRequest: If bash cannot read its set-up lines.
    """
    check_syntax(plan.setup)
    return cluster.script(
        plan.run,
        plan.resources,
        job_name=plan.description.name,
        setup=plan.setup,
        surroundings=plan.surroundings,
        requeue=plan.requeue_allowed,
        is_array=plan.is_array,
    )


def queue(plan: Plan, script: str, cluster: Cluster) -> Job[Any] | JobArray[Any]:
    """Queue a plan, whole or not at all.

    Raises:
        Rejected: If Slurm refuses it; nothing is left of it then.
        ClusterUnreachable: If Slurm does not answer.
        InvalidRequest: If the run folder cannot be written; nothing is left of it then, either.
    """
    try:
        plan.write(script)
    except OSError as error:
        shutil.rmtree(plan.run.path, ignore_errors=True)
        raise InvalidRequest(
            f"The run folder {plan.run.path} cannot be written: {error.strerror or error}.",
            hint=f"df -h {plan.run.path.parent}; HELPERS_RUNS=/a/folder/with/room keeps runs elsewhere",
        ) from error
    try:
        parts = _queue(plan, cluster)
    except (Rejected, ClusterUnreachable):
        shutil.rmtree(plan.run.path)
        raise
    glance.forget()
    for job_id, count in parts:
        facts = {"elements": count} if plan.is_array else {"step": None}
        record_attempt(plan.run, durable=False, event="queued", attempt=0, job_id=job_id, **facts)
    _say(plan, cluster, ", ".join(job_id for job_id, _ in parts))
    if plan.is_array:
        return watch_array(plan.run, plan.description, cluster, parts)
    job: Job[Any] = Job(plan.run.path, cluster, parts[0][0], describe=lambda: plan.description)
    watcher.watch(job)
    return job


def _queue(plan: Plan, cluster: Cluster) -> list[tuple[str, int]]:
    """Return the id of each part of an array, and how many elements are in it; a job is one part of one."""
    after = plan.after.option
    if plan.is_array:
        return cluster.queue_array(plan.run, len(plan.calls), plan.description.max_running, after=after)
    return [(cluster.queue(plan.run, after=after), 1)]


def _say(plan: Plan, cluster: Cluster, ids: str) -> None:
    where = plan.resources.sentence() if cluster.name == "slurm" else "this machine"
    what = f"job {ids} · {where}"
    if plan.is_array:
        what = f"job array {ids} · {_elements(plan)}: {where}"
    print(f"helpers: {what} · {plan.run.path}", file=sys.stderr)


def _elements(plan: Plan) -> str:
    """Say how many elements there are; what follows is of each."""
    count, at_a_time = len(plan.calls), plan.description.max_running
    return f"{count} element{'' if count == 1 else 's'}{f', {at_a_time} at a time' if at_a_time else ''}, each"
