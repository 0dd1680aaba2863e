"""Write down of arrays what the scheduler alone knows: elements that have ended without a word of their own.

Of an array that nobody waits for, one that is cancelled before it begins leaves no folder; Slurm soon forgets it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from helpers.runtime.run.description import read_description
from helpers.runtime.run.element import describe_element, element_folder, make_element
from helpers.runtime.run.status import State, read_ledger, read_status, write_status
from helpers.submission.clusters.choice import queue_of
from helpers.submission.jobs.array_status import ids_of_elements, parts_of
from helpers.submission.jobs.endings import status_from_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.clusters.choice import Queue
    from helpers.submission.clusters.slurm_queue import Observation

T = TypeVar("T")

SETTLE_S = 3.0  # how long what a job has written may take to be seen here (NFS: attribute cache)
_POLL_S = 0.1


@dataclass(frozen=True)
class _Element:
    """An element that has not said how it ended, under the id of its newest attempt."""

    array: RunFolder
    number: int
    job_id: str

    @property
    def run(self) -> RunFolder:
        return element_folder(self.array, self.number)


def settle_elements(arrays: Iterable[RunFolder]) -> None:
    """Ask each scheduler once how those elements stand that have not ended, and write down what it alone knows.

    Args:
        arrays: Run folders of arrays.

    Raises:
        ClusterUnreachable: If a scheduler does not answer.
    """
    places: dict[tuple[type, str], tuple[Queue, list[_Element]]] = {}
    for array in arrays:
        queue = queue_of(read_description(array))
        if queue is not None:
            places.setdefault((type(queue), queue.name), (queue, []))[1].extend(_unfinished(array))
    seen: dict[_Element, Observation | None] = {}
    for queue, elements in places.values():
        answer = queue.observe([element.job_id for element in elements]) if elements else {}
        seen |= {element: answer.get(element.job_id) for element in elements}
    for element, observation in _wait_for_word(seen).items():
        _write_down(element, observation)


def wait_for_word(
    late: Sequence[T], has_spoken: Callable[[T], bool], *, may_speak: Callable[[T], bool] = lambda _: True
) -> Sequence[T]:
    """Give jobs that have ended the time to say how, as long as one of them may; return those that do not."""
    deadline = time.monotonic() + SETTLE_S
    while any(map(may_speak, late)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        late = [one for one in late if not has_spoken(one)]
    return late


def _unfinished(array: RunFolder) -> list[_Element]:
    found = []
    for number, first_id in enumerate(ids_of_elements(parts_of(array))):
        run = element_folder(array, number)
        status = read_status(run)
        if status is None or not status.state.is_final:
            ledger = read_ledger(run)
            found.append(_Element(array, number, ledger[-1]["job_id"] if ledger else first_id))
    return found


def _wait_for_word(seen: Mapping[_Element, Observation | None]) -> dict[_Element, Observation | None]:
    """Give those that have ended the time to say how; return those that do not.

    One that no node ever had has nothing to say.
    """
    ended = [one for one, observation in seen.items() if observation is None or observation.state.is_final]
    silent = wait_for_word(ended, _has_spoken, may_speak=lambda one: _may_speak(seen[one]))
    return {one: seen[one] for one in silent if not _has_spoken(one)}


def _may_speak(observation: Observation | None) -> bool:
    return observation is None or bool(observation.nodes)


def _has_spoken(element: _Element) -> bool:
    """Say whether it has ended by its own word, or goes on under another id."""
    status, ledger = read_status(element.run), read_ledger(element.run)
    ended = status is not None and status.state.is_final
    return ended or (bool(ledger) and ledger[-1]["job_id"] != element.job_id)


def _write_down(element: _Element, observation: Observation | None) -> None:
    """Write how an element ended that left no word; its folder, perhaps made here, tells what it waited for."""
    make_element(element.run, describe_element(read_description(element.array), element.number))
    status = status_from_scheduler(element.run, element.job_id, observation)
    if status.state is not State.LOST:  # one that is only out of sight may still speak
        write_status(element.run, status)
