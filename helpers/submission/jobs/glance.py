"""Look at how one job stands, with one question to the scheduler for all jobs of this process that it may know.

``[job.state for job in jobs]`` would otherwise start a ``squeue`` for each.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.submission.jobs.watcher import watcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.submission.clusters.choice import Queue
    from helpers.submission.clusters.slurm_queue import Observation


@dataclass(frozen=True)
class _Answer:
    """What a scheduler has said of the jobs that it was asked about, and until when it serves."""

    asked: frozenset[str]
    seen: Mapping[str, Observation]
    until: float


class Glance:
    """The newest answer of each scheduler, for as long as it serves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str | None], _Answer] = {}

    def at(self, queue: Queue, job_id: str) -> Observation | None:
        """Return how a job stands; None where the scheduler does not know it.

        Raises:
            ClusterUnreachable: If it has to be asked, and does not answer.
        """
        if not queue.answer_serves_s:
            return queue.observe([job_id]).get(job_id)
        cluster = queue.name, os.environ.get("SLURM_CONF")
        with self._lock:
            answer = self._answers.get(cluster)
            if answer is None or job_id not in answer.asked or time.monotonic() > answer.until:
                asked = frozenset({job_id, *watcher.ids_at(queue)})
                seen = queue.observe(asked)
                answer = _Answer(asked, seen, time.monotonic() + queue.answer_serves_s)
                self._answers[cluster] = answer
            return answer.seen.get(job_id)

    def forget(self) -> None:
        """Ask anew: this process has just queued or cancelled something."""
        with self._lock:
            self._answers.clear()


glance = Glance()
"""The one of this process."""
