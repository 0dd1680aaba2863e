"""Do what a test commands: events that a real cluster brings unasked."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import ending, starting
from helpers.testing.controller.notation.hostlists import compress

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Server


def obey(server: Server, order: str, values: dict[str, Any]) -> dict[str, Any]:
    """Carry out one order; return what is said of it, or ``{"error": …}``."""
    cluster = server.cluster
    match order:
        case "hold_queue":
            cluster.is_held, cluster.held_because = values["held"], values["reason"]
            server.changed()
        case "silence":
            cluster.is_silent = values["silent"]
        case "restore_node":
            server.set_node(values["node"], "resume")
        case "calls":
            return {"calls": cluster.calls}
        case "jobs":
            return {"jobs": [describe(job) for job in [*cluster.accounted, *cluster.jobs]]}
        case _:
            return _obey_for_jobs(server, order, values)
    return {}


def _obey_for_jobs(server: Server, order: str, values: dict[str, Any]) -> dict[str, Any]:
    cluster = server.cluster
    number: str = values["job"]
    jobs = cluster.find(number)
    if order == "job":
        jobs = jobs or [job for job in cluster.accounted if number in job.is_called]
    if not jobs:
        return {"error": f"the fake Slurm knows no job {number}"}
    if order == "job":
        return {"jobs": [describe(job) for job in jobs]}
    if order == "forget":
        over = [job for job in jobs if not job.is_active]
        cluster.accounted += over
        cluster.drop(over)
        return {} if over else {"error": f"job {number} still runs: {jobs[0].state}"}
    active = [job for job in jobs if job.state == "RUNNING"]
    if not active:
        return {"error": f"job {number} does not run: {jobs[0].state} ({jobs[0].reason})"}
    for job in active:
        _befall(server, job, order, values)
    return {"nodes": [node for job in active for node in job.nodes]}


def _befall(server: Server, job: Job, order: str, values: dict[str, Any]) -> None:
    if order == "preempt":
        ending.preempt(server, job, grace_s=values["grace_s"])
    elif order == "lose_node":
        for node in list(job.nodes):
            server.set_node(node, "down")
    elif order == "reach_time_limit":
        _reach_time_limit(server, job, values["warning_s"])
    elif order == "run_out_of_memory":
        _run_out_of_memory(job)
    else:
        raise ValueError(order)


def _reach_time_limit(server: Server, job: Job, warning_s: float) -> None:
    """Let the last seconds before the limit begin, from the warning signal on."""
    limit = job.limit_s() or 60.0
    if not job.demand.time_min:
        job.demand.time_min = 1
    before = float(job.signal[1]) if job.signal else 0.0
    base = max(0.0, limit - before)
    starting.set_clock(server, job, base=base, speed=(limit - base) / warning_s if before and warning_s else 1.0)


def _run_out_of_memory(job: Job) -> None:
    """Kill what has grown most: the tasks of a step, or the batch script where there is none."""
    job.ending = "OUT_OF_MEMORY"
    for step in job.steps:
        step.mark = "OUT_OF_MEMORY"
        step.say(f"Detected 1 oom-kill event(s) in StepId={step.id}. Some of your processes may have been killed "
                 "by the cgroup out-of-memory handler.")  # fmt: skip
    ending.send_signal(job, signal.SIGKILL, to_batch=not job.steps, to_steps=True)


def describe(job: Job) -> dict[str, Any]:
    """Return what a test may want to look at."""
    return {
        "id": job.id,
        "number": job.number,
        "name": job.name,
        "state": job.state,
        "reason": job.reason,
        "nodes": compress(job.nodes),
        "partition": job.demand.partition,
        "options": job.options,
        "script": job.script,
        "folder": job.folder,
        "restarts": job.restarts,
        "exit_code": job.wait_status >> 8,
        "environment": job.environment,
    }
