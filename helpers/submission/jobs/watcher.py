"""End the futures of all jobs from one daemon thread.

A run tells its own end in its folder; the scheduler is asked, for all jobs at once, only about those that
cannot tell any more: cancelled, killed with their batch script, or lost with their node. While it is silent, what
the folders tell is heard all the same. Of an array only those elements are looked at one by one that have begun, or
that somebody holds.
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
from helpers.runtime.run.element import array_of, make_element
from helpers.runtime.run.status import State, Status, read_status, write_status
from helpers.submission.jobs.endings import status_from_scheduler
from helpers.submission.jobs.interruption import explain_at_the_end
from helpers.submission.jobs.question import Question
from helpers.submission.jobs.settling import SETTLE_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.submission.clusters.choice import Queue
    from helpers.submission.clusters.slurm_queue import Observation
    from helpers.submission.jobs.array import Elements
    from helpers.submission.jobs.job import Job

_POLL_S = 0.1
_SLOW_POLL_S = 0.5
_FAST_FOR_S = 20
_SHARE = 0.1  # of the time, at most, goes into looking: the caller's own thread has the rest
_LONGEST_POLL_S = 2.0
_ASK_EVERY_S = 2.0
_LONGEST_PAUSE_S = 60.0


@dataclass
class _Watched:
    """A job, since when the scheduler has called it ended, and how, while it still knew."""

    job: Job[Any]
    ended_since: float | None = None
    ended_how: Observation | None = None


@dataclass(frozen=True)
class _Asked:
    """What a question to one scheduler is about: the jobs by their ids then, and elements of which no job is made."""

    queue: Queue
    entries: list[tuple[_Watched, str]]
    elements: list[tuple[Elements, dict[str, int]]]

    @property
    def job_ids(self) -> list[str]:
        waiting = (job_id for _, unmade in self.elements for job_id in unmade)
        return [*(job_id for _, job_id in self.entries), *waiting]


class Watcher:
    """Watch any number of jobs in one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stirred = threading.Event()
        self._watched: list[_Watched] = []
        self._arrays: list[Elements] = []
        self._newest = 0.0
        self._thread: threading.Thread | None = None
        self._question: tuple[Question, list[_Asked]] | None = None
        self._next_question = 0.0
        self._pause = _ASK_EVERY_S

    def watch(self, job: Job[Any], *, may_have_ended: bool = False) -> None:
        """End ``job`` when its run ends; at once, if it may have ended already and has."""
        entry = _Watched(job)
        if may_have_ended and self._end_by_folder(entry):
            return
        with self._lock:
            self._watched.append(entry)
            self._begin()

    def watch_elements(self, elements: Elements) -> None:
        """Watch an array, whose jobs are made, and watched by themselves, as its elements begin."""
        with self._lock:
            self._arrays.append(elements)
            self._begin()

    def unfinished(self) -> list[Job[Any]]:
        """Return the jobs of this process that have not ended; of an array those that are made."""
        with self._lock:
            return [entry.job for entry in self._watched if not entry.job.done()]

    def arrays(self) -> list[Elements]:
        """Return the arrays of this process that have elements of which no job is made yet."""
        with self._lock:
            return list(self._arrays)

    def ids_at(self, queue: Queue) -> list[str]:
        """Return the ids of all jobs of this process that have not ended and are known there."""
        with self._lock:
            watched = [entry for entry in self._watched if not entry.job.done()]
            arrays = list(self._arrays)
        asked = [one for one in _by_cluster(watched, arrays) if _is_same(one.queue, queue)]
        return [job_id for one in asked for job_id in one.job_ids]

    def _begin(self) -> None:
        self._newest = time.monotonic()
        explain_at_the_end()
        if self._thread is None or not self._thread.is_alive():
            self._question = None  # of a process that this one is a fork of
            self._thread = threading.Thread(target=self._watch, name="helpers-watcher", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while True:
            with self._lock:
                watched, arrays = list(self._watched), list(self._arrays)
                if not watched and not arrays:
                    self._thread = None
                    return
            begun = time.monotonic()
            try:
                self._look_at(watched, arrays)
            except Exception:  # noqa: BLE001 -- one broken run must not leave the callers of all others waiting
                traceback.print_exc()
                time.sleep(_ASK_EVERY_S)
            with self._lock:
                self._watched = [entry for entry in self._watched if not entry.job.done()]
                self._arrays = [elements for elements in self._arrays if elements.unmade()]
            self._stirred.wait(self._poll_s(took=time.monotonic() - begun))
            self._stirred.clear()

    def _look_at(self, watched: list[_Watched], arrays: list[Elements]) -> None:
        for elements in arrays:
            elements.make_begun()
        for entry in watched:
            self._end_by_folder(entry)
        if self._question is not None:
            self._hear_answer(*self._question)
            return
        remaining = [entry for entry in watched if not entry.job.done()]
        if (remaining or arrays) and time.monotonic() >= self._next_question:
            asked = _by_cluster(remaining, arrays)
            self._question = Question([(one.queue, one.job_ids) for one in asked], self._stirred.set), asked

    def _poll_s(self, *, took: float) -> float:
        """Return how long to wait: the longer, the longer one look takes."""
        usual = _POLL_S if time.monotonic() - self._newest < _FAST_FOR_S else _SLOW_POLL_S
        return max(usual, min(took / _SHARE, _LONGEST_POLL_S))

    @staticmethod
    def _end_by_folder(entry: _Watched) -> bool:
        status = _final_status(entry.job)
        if status is None:
            return False
        entry.job._end(status)  # noqa: SLF001 -- the watcher is the one that ends a job
        return True

    def _hear_answer(self, question: Question, asked: list[_Asked]) -> None:
        """End what the schedulers call ended, once they have answered."""
        if not question.is_answered:
            return
        self._question, pause = None, _ASK_EVERY_S
        for one, seen in zip(asked, question.answers(), strict=True):
            if isinstance(seen, ClusterUnreachable):
                pause = self._longer_pause(seen)
                continue
            for entry, job_id in one.entries:
                self._end_by_scheduler(entry, job_id, seen)
            for elements, waiting in one.elements:
                self._look_at_elements(elements, waiting, seen)
        self._pause = pause
        self._next_question = time.monotonic() + pause

    def _look_at_elements(self, elements: Elements, waiting: dict[str, int], seen: dict[str, Observation]) -> None:
        """Watch by themselves, from now on, those elements that the scheduler does not call waiting any more."""
        for job_id, number in waiting.items():
            observation = seen.get(job_id)
            if observation is not None and observation.state is State.PENDING:
                continue
            job = elements[number]
            with self._lock:
                entry = next((entry for entry in reversed(self._watched) if entry.job is job), None)
            if entry is not None:
                self._end_by_scheduler(entry, job_id, seen)

    def _longer_pause(self, error: ClusterUnreachable) -> float:
        """Ask less and less often while the controller is silent; say so once."""
        if self._pause == _ASK_EVERY_S:
            print(f"helpers: {error.message} Asking again until it does; the jobs go on.", file=sys.stderr)
        return min(self._pause * 2, _LONGEST_PAUSE_S)

    @staticmethod
    def _end_by_scheduler(entry: _Watched, job_id: str, seen: Mapping[str, Observation]) -> None:
        """End a job that the scheduler calls ended, once its own word has had time to arrive."""
        if entry.job.done():  # its own word has come since the question
            return
        observation = seen.get(job_id)
        if observation is not None and not observation.state.is_final:
            entry.ended_since = entry.ended_how = None
            return
        now = time.monotonic()
        entry.ended_since = entry.ended_since or now
        entry.ended_how = observation or entry.ended_how
        if now - entry.ended_since < SETTLE_S:
            return
        run = entry.job._files  # noqa: SLF001
        if entry.job.id != job_id:  # a successor has been queued since
            return
        status = _final_status(entry.job)
        if status is None:
            with contextlib.suppress(OSError):  # somebody has removed the run folder
                if array_of(run) is not None:  # one that never began has no folder yet, which says what it waits for
                    make_element(run, entry.job.description)
            status = status_from_scheduler(run, job_id, entry.ended_how)
            with contextlib.suppress(OSError):
                write_status(run, status)  # what the queue forgets, the run remembers
        entry.job._end(status)  # noqa: SLF001


def _by_cluster(watched: list[_Watched], arrays: list[Elements]) -> list[_Asked]:
    """Put together what one question can be about; what runs nowhere that can be asked is left out."""
    found: list[_Asked] = []

    def asked(queue: Queue) -> _Asked:
        known = next((one for one in found if _is_same(one.queue, queue)), None)
        if known is None:
            found.append(known := _Asked(queue, [], []))
        return known

    for entry in watched:
        queue = entry.job._cluster  # noqa: SLF001
        if queue is not None:
            asked(queue).entries.append((entry, entry.job.id))
    for elements in arrays:
        if elements.queue is not None:
            asked(elements.queue).elements.append((elements, elements.unmade()))
    return found


def _is_same(one: Queue, other: Queue) -> bool:
    """Say whether one question can be about jobs of both; a cluster that is not here has the name of the one here."""
    return type(one) is type(other) and one.name == other.name


def _final_status(job: Job[Any]) -> Status | None:
    status = read_status(job._files)  # noqa: SLF001
    return status if status is not None and status.state.is_final else None


watcher = Watcher()
"""The one watcher of this process."""
