"""Ask schedulers how jobs stand, beside the thread that waits for them: one that never answers holds up nobody."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from helpers.submission.clusters.choice import Queue
    from helpers.submission.clusters.slurm_queue import Observation


class Question:
    """A question to one scheduler after another, in a daemon thread of its own.

    Args:
        about: The schedulers, each with the ids of its jobs.
        when_answered: Is called in that thread, at the end.

    Attributes:
        is_answered: Whether all have answered, or have been given up.
    """

    def __init__(self, about: Sequence[tuple[Queue, Sequence[str]]], when_answered: Callable[[], None]) -> None:
        self._answers: list[dict[str, Observation] | ClusterUnreachable] = []
        self._broken: Exception | None = None
        self.is_answered = False
        threading.Thread(target=self._ask, args=(about, when_answered), name="helpers-question", daemon=True).start()

    def answers(self) -> Sequence[dict[str, Observation] | ClusterUnreachable]:
        """Return what each has said, in their order; an error for one that does not answer.

        Raises:
            Exception: What else went wrong with one of them.
        """
        if self._broken is not None:
            raise self._broken
        return self._answers

    def _ask(self, about: Sequence[tuple[Queue, Sequence[str]]], when_answered: Callable[[], None]) -> None:
        try:
            for queue, job_ids in about:
                try:
                    self._answers.append(queue.observe(job_ids))
                except ClusterUnreachable as error:
                    self._answers.append(error)
        except Exception as error:  # noqa: BLE001 -- the watcher says it
            self._broken = error
        self.is_answered = True
        when_answered()
