"""Decide who starts, who waits and why, and whose place is taken."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from helpers.testing.controller import ending, starting
from helpers.testing.controller.capacity import find_place, over_limit
from helpers.testing.controller.dependencies import look

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Server


def schedule(server: Server) -> None:
    """Start every job that may run and fits; give the others their reason."""
    cluster, now = server.cluster, time.time()
    cluster.forget_old(now)
    blocked: set[str] = set()
    waiting = [job for job in cluster.jobs if job.state == "PENDING"]
    for job in sorted(waiting, key=lambda one: -_tier(server, one)):
        reason = _why_not_yet(server, job, now)
        if reason is None and _try(server, job):
            continue
        if reason is None:
            reason = "Priority" if job.demand.partition in blocked else "Resources"
            blocked.add(job.demand.partition)
        job.reason = reason
        job.waited_for = reason
        if reason == "DependencyNeverSatisfied" and job.kills_invalid_dependency:
            job.state, job.ended = "CANCELLED", now


def _tier(server: Server, job: Job) -> int:
    partition = server.cluster.partition(job.demand.partition)
    return partition.priority_tier if partition else 0


def _why_not_yet(server: Server, job: Job, now: float) -> str | None:
    cluster = server.cluster
    if job.held:
        return job.held
    look(cluster, job)
    states = {entry.state for entry in job.dependencies}
    if "failed" in states:
        return "DependencyNeverSatisfied"
    if "unfulfilled" in states:
        return "Dependency"
    if job.begin > now:
        server.timers.after(job.begin - now + 0.001, server.changed)
        return "BeginTime"
    if (over := over_limit(cluster, job.demand)) is not None:
        return over
    if job.throttle and sum(other.array == job.array and other.is_active for other in cluster.jobs) >= job.throttle:
        return "JobArrayTaskLimit"
    return cluster.held_because if cluster.is_held else None


def _try(server: Server, job: Job) -> bool:
    place = find_place(server.cluster, job.demand)
    if place is None:
        _make_room(server, job)
        return False
    starting.start(server, job, place)
    return True


def _make_room(server: Server, job: Job) -> None:
    """Preempt jobs of lower, preemptible partitions, the youngest first, if that is enough."""
    cluster, victims = server.cluster, []
    if any(other.ending == "PREEMPTED" for other in cluster.active()):
        return  # room is being made already
    for other in sorted(cluster.active(), key=lambda one: -(one.started or 0)):
        partition = cluster.partition(other.demand.partition)
        if partition is None or not partition.is_preemptible or partition.priority_tier >= _tier(server, job):
            continue
        victims.append(other)
        if find_place(cluster, job.demand, without=victims) is not None:
            for victim in victims:
                ending.preempt(server, victim, grace_s=partition.grace_time_s)
            return
