"""End the futures of all jobs from one daemon thread.

A run tells its own end in its folder; the scheduler is asked, for all jobs at once, only about those that
cannot tell any more: cancelled, killed with their batch script, or lost with their node.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import ClusterUnreachable
from helpers.runtime.status import Status, read_status, write_status
from helpers.submission.endings import status_from_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.submission.job import Job
    from helpers.submission.slurm_queue import Observation

_POLL_S = 0.1
_SLOW_POLL_S = 0.5
_FAST_FOR_S = 20
_ASK_EVERY_S = 2.0
_LONGEST_PAUSE_S = 60.0
_SETTLE_S = 3.0  # how long a file that the job has written may take to be seen here (NFS: attribute cache)


@dataclass
class _Watched:
    """A job, since when the scheduler has called it ended, and how, while it still knew."""

    job: Job[Any]
    since: float
    ended_since: float | None = None
    ended_how: Observation | None = None


class Watcher:
    """Watch any number of jobs in one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[_Watched] = []
        self._thread: threading.Thread | None = None
        self._next_question = 0.0
        self._pause = _ASK_EVERY_S

    def watch(self, job: Job[Any], *, may_have_ended: bool = False) -> None:
        """End ``job`` when its run ends; at once, if it may have ended already and has."""
        if may_have_ended and self._end_by_folder(_Watched(job, time.monotonic())):
            return
        with self._lock:
            self._watched.append(_Watched(job, time.monotonic()))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="helpers-watcher", daemon=True)
                self._thread.start()

    def unfinished(self) -> list[Job[Any]]:
        """Return the jobs of this process that have not ended."""
        with self._lock:
            return [entry.job for entry in self._watched if not entry.job.done()]

    def _watch(self) -> None:
        while True:
            with self._lock:
                watched = list(self._watched)
                if not watched:
                    self._thread = None
                    return
            try:
                self._look_at(watched)
            except Exception:  # noqa: BLE001 -- one broken run must not leave the callers of all others waiting
                traceback.print_exc()
                time.sleep(_ASK_EVERY_S)
            with self._lock:
                self._watched = [entry for entry in self._watched if not entry.job.done()]
            time.sleep(self._poll_s(watched))

    def _look_at(self, watched: list[_Watched]) -> None:
        for entry in watched:
            self._end_by_folder(entry)
        remaining = [entry for entry in watched if not entry.job.done()]
        if remaining and time.monotonic() >= self._next_question:
            self._ask_scheduler(remaining)

    @staticmethod
    def _poll_s(watched: Iterable[_Watched]) -> float:
        newest = max((entry.since for entry in watched), default=0.0)
        return _POLL_S if time.monotonic() - newest < _FAST_FOR_S else _SLOW_POLL_S

    @staticmethod
    def _end_by_folder(entry: _Watched) -> bool:
        status = _final_status(entry.job)
        if status is None:
            return False
        entry.job._end(status)  # noqa: SLF001 -- the watcher is the one that ends a job
        return True

    def _ask_scheduler(self, watched: list[_Watched]) -> None:
        pause = _ASK_EVERY_S
        by_cluster: dict[str, list[_Watched]] = {}
        for entry in watched:
            by_cluster.setdefault(getattr(entry.job._cluster, "name", ""), []).append(entry)  # noqa: SLF001
        for entries in by_cluster.values():
            cluster = entries[0].job._cluster  # noqa: SLF001
            if cluster is None:
                continue
            ids = {id(entry): entry.job.id for entry in entries}
            try:
                seen = cluster.observe(ids.values())
            except ClusterUnreachable as error:
                pause = self._longer_pause(error)
                continue
            for entry in entries:
                self._end_by_scheduler(entry, ids[id(entry)], seen)
        self._pause = pause
        self._next_question = time.monotonic() + pause

    def _longer_pause(self, error: ClusterUnreachable) -> float:
        """Ask less and less often while the controller is silent; say so once."""
        if self._pause == _ASK_EVERY_S:
            print(f"helpers: {error.message} Asking again until it does; the jobs go on.", file=sys.stderr)
        return min(self._pause * 2, _LONGEST_PAUSE_S)

    @staticmethod
    def _end_by_scheduler(entry: _Watched, job_id: str, seen: dict[str, Any]) -> None:
        """End a job that the scheduler calls ended, once its own word has had time to arrive."""
        observation = seen.get(job_id)
        if observation is not None and not observation.state.is_final:
            entry.ended_since = entry.ended_how = None
            return
        now = time.monotonic()
        entry.ended_since = entry.ended_since or now
        entry.ended_how = observation or entry.ended_how
        if now - entry.ended_since < _SETTLE_S:
            return
        run = entry.job._files  # noqa: SLF001
        if entry.job.id != job_id:  # a successor has been queued since
            return
        status = _final_status(entry.job)
        if status is None:
            status = status_from_scheduler(run, job_id, entry.ended_how)
            with contextlib.suppress(OSError):  # somebody has removed the run folder
                write_status(run, status)  # what the queue forgets, the run remembers
        entry.job._end(status)  # noqa: SLF001


def _final_status(job: Job[Any]) -> Status | None:
    status = read_status(job._files)  # noqa: SLF001
    return status if status is not None and status.state.is_final else None


watcher = Watcher()
"""The one watcher of this process."""
