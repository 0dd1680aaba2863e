"""Bring a job to its end: by itself, by somebody's command, with its node; and let it wait again if it is requeued."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from helpers.testing.controller.notation.exit_codes import read_wait_status
from helpers.testing.controller.notation.times import moment
from helpers.testing.controller.processes import send

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Server

_BATCH_ALONE_S = 0.05
_WITHOUT_EXIT_CODE = {"CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL"}


def send_signal(job: Job, number: int, *, to_batch: bool, to_steps: bool) -> None:
    """Send a signal to the direct children of Slurm: the batch shell, the tasks."""
    if to_batch and job.batch_pid is not None:
        send(job.batch_pid, number)
    for step in job.steps if to_steps else []:
        step.send(number)


def say(job: Job, text: str) -> None:
    """Write a line of slurmstepd into a job's log."""
    if job.streams is not None:
        os.write(job.streams[1], f"slurmstepd: error: {text}\n".encode())


def terminate(server: Server, job: Job, ending: str, *, why: str = "", requeues: bool = False) -> None:
    """End a running job as Slurm does: CONT, TERM, after a while KILL.

    Args:
        server: The whole.
        job: Which.
        ending: The state that it ends in.
        why: What follows ``DUE TO``.
        requeues: Whether it waits for its next start then.
    """
    if job.state == "COMPLETING":
        if ending == "CANCELLED":
            job.ending, job.requeues = ending, False
        return
    job.state, job.ending, job.requeues = "COMPLETING", ending, requeues
    due = f" DUE TO {why}" if why else ""
    now = moment(time.time())
    if job.batch_pid is not None:
        say(job, f"*** JOB {job.number} ON {job.nodes[0]} CANCELLED AT {now}{due} ***")
    steps_alive = list(job.steps)
    for step in steps_alive:
        step.announce_end(now, due, wait_s=int(server.cluster.settings.kill_wait_s) + 2)
    for number in (signal.SIGCONT, signal.SIGTERM):
        send_signal(job, number, to_batch=True, to_steps=True)
    alone = requeues and not steps_alive
    attempt = job.attempt
    wait_s = min(_BATCH_ALONE_S, server.cluster.settings.kill_wait_s) if alone else server.cluster.settings.kill_wait_s
    server.timers.after(wait_s, lambda: kill(server, job, attempt))
    settle(server, job)


def kill(server: Server, job: Job, attempt: int) -> None:
    """Kill all processes of an attempt, if it is not over."""
    if job.attempt != attempt or not job.is_active:
        return
    send_signal(job, signal.SIGKILL, to_batch=True, to_steps=True)
    server.processes.kill_leftovers(job.sessions, str(job.number))


def preempt(server: Server, job: Job, *, grace_s: float) -> None:
    """Take a job's place: its ranks are told at once, it is ended after the grace; requeued if it may be."""
    if job.state != "RUNNING":
        return
    job.ending = "PREEMPTED"
    attempt = job.attempt
    if grace_s <= 0:
        terminate(server, job, "PREEMPTED", why="PREEMPTION", requeues=job.requeue)
        return
    now = moment(time.time())
    for step in job.steps:
        step.say(f"*** STEP {step.id} ON {step.nodes[0]} CANCELLED AT {now} ***")
    for number in (signal.SIGCONT, signal.SIGTERM):
        send_signal(job, number, to_batch=False, to_steps=True)
    server.timers.after(grace_s, lambda: _end_grace(server, job, attempt))


def _end_grace(server: Server, job: Job, attempt: int) -> None:
    if job.attempt == attempt and job.state == "RUNNING":
        terminate(server, job, "PREEMPTED", why="PREEMPTION", requeues=job.requeue)


def requeue(server: Server, job: Job) -> None:
    """End a running job, and let it start again."""
    terminate(server, job, "REQUEUED", why="JOB REQUEUE", requeues=True)


def lose(server: Server, job: Job) -> None:
    """End a job as a node does that is suddenly gone: nothing is told to anybody."""
    job.state, job.ending, job.requeues = "COMPLETING", "NODE_FAIL", job.requeue
    kill(server, job, job.attempt)
    settle(server, job)


def batch_ended(server: Server, job: Job, attempt: int, status: int) -> None:
    """Take note that a batch script has ended; what it leaves is ended too."""
    if job.attempt != attempt:
        return
    job.batch_pid, job.wait_status = None, status
    if job.steps and job.ending != "NODE_FAIL":
        for step in job.steps:
            step.send(signal.SIGTERM)
        server.timers.after(server.cluster.settings.kill_wait_s, lambda: kill(server, job, attempt))
    settle(server, job)


def settle(server: Server, job: Job) -> None:
    """End a job none of whose processes is left."""
    if not job.is_active or job.batch_pid is not None or job.steps:
        return
    server.processes.kill_leftovers(job.sessions, str(job.number))
    for stream in job.streams or ():
        os.close(stream)
    job.streams = None
    job.ended = time.time()
    job.state, job.reason = _final(job)
    if job.requeues and job.ending != "CANCELLED":
        job.history.append(job.record())
        _wait_again(server, job)
    server.changed()


def _final(job: Job) -> tuple[str, str]:
    ending = job.ending if job.requeues or job.ending != "PREEMPTED" or job.state == "COMPLETING" else ""
    if ending in _WITHOUT_EXIT_CODE | {"OUT_OF_MEMORY", "REQUEUED"}:
        if ending == "NODE_FAIL":
            job.wait_status = 0
        reasons = {"TIMEOUT": "TimeLimit", "NODE_FAIL": "NodeDown", "OUT_OF_MEMORY": "OutOfMemory"}
        return ending, reasons.get(ending, "None")
    if job.wait_status == 0:
        return "COMPLETED", "None"
    return "FAILED", "JobLaunchFailure" if read_wait_status(job.wait_status)[1] else "NonZeroExitCode"


def _wait_again(server: Server, job: Job) -> None:
    job.state, job.reason, job.waited_for = "PENDING", "BeginTime", "BeginTime"
    job.begin = time.time() + server.cluster.settings.requeue_delay_s
    job.started = job.ended = None
    job.nodes, job.gpus, job.wait_status, job.ending, job.requeues = [], {}, 0, "", False
    job.ended_steps = []
    job.restarts += 1


def cancel(server: Server, job: Job) -> None:
    """Do what ``scancel`` asks for, to a job that waits or runs."""
    if job.state == "PENDING":
        if job.array is not None and job.started is None and job.restarts == 0 and _is_single_element(server, job):
            server.cluster.drop([job])  # the real one forgets an element that has never started
            server.changed()
        else:
            end_waiting(server, job)
    elif job.is_active:
        terminate(server, job, "CANCELLED")


def _is_single_element(server: Server, job: Job) -> bool:
    """Say whether other elements of its array go on."""
    return any(other.array == job.array and other is not job and not other.is_final for other in server.cluster.jobs)


def end_waiting(server: Server, job: Job) -> None:
    """Cancel a job that waits."""
    job.state, job.ended = "CANCELLED", time.time()
    server.changed()


def revive(server: Server, job: Job) -> None:
    """Let a job that has ended start again, as ``scontrol requeue`` does."""
    job.history.append(job.record())
    _wait_again(server, job)
    server.changed()
