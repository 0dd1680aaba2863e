"""Say how an array stands as a whole, by what its elements have written."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from helpers.runtime.element import element_folder
from helpers.runtime.status import Ending, State, Status, read_status

if TYPE_CHECKING:
    from helpers.runtime.description import Description
    from helpers.runtime.run_folder import RunFolder

_WORDS = {
    State.COMPLETED: "completed",
    State.RUNNING: "running",
    State.REQUEUED: "requeued",
    State.PENDING: "waiting",
}


def array_status(array: RunFolder, description: Description, job_id: str) -> Status:
    """Return one status for all: it has ended when all elements have, and failed when one has.

    Elements that Slurm has ended without a word count as they last said themselves.
    """
    statuses = [read_status(element_folder(array, index)) for index in range(len(description.elements))]
    counts = Counter(State.PENDING if status is None else status.state for status in statuses)
    detail = ", ".join(f"{number} {_WORDS.get(state, state.lower())}" for state, number in sorted(counts.items()))
    ending = Ending(cause="array", detail=f"{len(statuses)} elements: {detail}")
    return Status(state=_state(counts), job_id=job_id, attempt=0, ending=ending)


def _state(counts: Counter[State]) -> State:
    if all(state.is_final for state in counts):
        return State.COMPLETED if set(counts) == {State.COMPLETED} else State.FAILED
    begun = any(state is not State.PENDING for state in counts)
    return State.RUNNING if begun else State.PENDING
