"""Start a job, and let its time run: to its warning, and to its limit."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from helpers.testing.controller import variables
from helpers.testing.controller.ending import batch_ended, send_signal, settle, terminate

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Server


def start(server: Server, job: Job, place: dict[str, list[int]]) -> None:
    """Give a job its nodes, and start its batch script there."""
    cluster, now = server.cluster, time.time()
    if job.array is not None and job.started is None and job.restarts == 0:
        others = [other for other in cluster.jobs if other.array == job.array and other is not job]
        if any(other.state == "PENDING" and other.number == job.array for other in others):
            job.number = cluster.take_id()  # the last to start keeps the id of the array
    job.nodes, job.gpus = list(place), place
    job.state, job.reason, job.ending, job.requeues = "RUNNING", "None", "", False
    job.started, job.ended, job.wait_status, job.next_step = now, None, 0, 0
    job.attempt += 1
    job.sessions = set()
    set_clock(server, job, base=0.0, speed=60 / cluster.settings.seconds_per_minute)
    if job.launch is not None:
        job.launch()
        return
    _start_batch(server, job)


def _start_batch(server: Server, job: Job) -> None:
    spool = server.cluster.folder / "spool" / f"job{job.number:05}"
    spool.mkdir(parents=True, exist_ok=True)
    script = spool / "slurm_script"
    script.write_text(job.script, encoding="utf-8", errors="surrogateescape")
    script.chmod(0o700)
    attempt = job.attempt
    folder = job.folder if os.path.isdir(job.folder) else "/tmp"  # noqa: S108 -- what slurmd does
    try:
        job.streams = _open_logs(job)
        with open(os.devnull) as nothing:
            job.batch_pid = server.processes.start(
                [str(script), *job.arguments],
                folder=folder,
                environment=variables.of_batch(server.cluster, job),
                streams=(nothing.fileno(), *job.streams),
                when_ended=lambda status: batch_ended(server, job, attempt, status),
            )
    except OSError as error:
        print(f"job {job.id}: {error}", flush=True)
        job.wait_status = 1 << 8
        settle(server, job)
        return
    job.sessions.add(job.batch_pid)


def _open_logs(job: Job) -> tuple[int, int]:
    appends = job.options.get("open-mode", "truncate").startswith("a")
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if appends else os.O_TRUNC)
    out = os.open(job.log("output"), flags, 0o644)
    if job.log("error") == job.log("output"):
        return out, os.dup(out)
    return out, os.open(job.log("error"), flags, 0o644)


def set_clock(server: Server, job: Job, *, base: float, speed: float) -> None:
    """Let a job's time go on from ``base`` seconds, at ``speed`` seconds a real second."""
    job.clock = (time.time(), base, speed)
    limit, token = job.limit_s(), (job.attempt, job.clock)
    if limit is None:
        return
    server.timers.after((limit - base) / speed, lambda: _reach_limit(server, job, token))
    if job.signal is not None and limit - job.signal[1] >= base:
        server.timers.after((limit - job.signal[1] - base) / speed, lambda: _warn(job, token))


def _is_now(job: Job, token: tuple[int, tuple[float, float, float]]) -> bool:
    return job.state == "RUNNING" and (job.attempt, job.clock) == token


def _warn(job: Job, token: tuple[int, tuple[float, float, float]]) -> None:
    if _is_now(job, token) and job.signal is not None:
        name, _, to_batch = job.signal
        send_signal(job, signal.Signals[name], to_batch=to_batch, to_steps=not to_batch)


def _reach_limit(server: Server, job: Job, token: tuple[int, tuple[float, float, float]]) -> None:
    if _is_now(job, token):
        terminate(server, job, "TIMEOUT", why="TIME LIMIT")
