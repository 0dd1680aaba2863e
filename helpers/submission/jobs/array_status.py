"""Say how an array stands as a whole, by what its elements have written."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from helpers.runtime.run.element import array_of, element_folder
from helpers.runtime.run.status import Ending, State, Status, read_ledger, read_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder

_WORDS = {
    State.COMPLETED: "completed",
    State.RUNNING: "running",
    State.REQUEUED: "requeued",
    State.PENDING: "waiting",
}


def array_status(array: RunFolder, description: Description, job_id: str) -> Status:
    """Return one status for all: it has ended when all elements have, and failed when one has.

    It was cancelled where nothing worse became of any element. Elements that Slurm has ended without a word count as
    they last said themselves; :func:`helpers.submission.jobs.settling.settle_elements` asks before.
    """
    statuses = [read_status(element_folder(array, index)) for index in range(len(description.elements))]
    counts = Counter(State.PENDING if status is None else status.state for status in statuses)
    detail = ", ".join(f"{number} {_WORDS.get(state, state.lower())}" for state, number in sorted(counts.items()))
    ending = Ending(cause="array", detail=f"{len(statuses)} element{'' if len(statuses) == 1 else 's'}: {detail}")
    return Status(state=_state(counts), job_id=job_id, attempt=0, ending=ending)


def parts_of(array: RunFolder) -> list[tuple[str, int]]:
    """Return under which ids an array was queued, and how many elements each part has."""
    return [(line["job_id"], line["elements"]) for line in read_ledger(array) if line.get("elements")]


def ids_of_elements(parts: Iterable[tuple[str, int]]) -> list[str]:
    """Return the scheduler's id of each element, in their order."""
    return [f"{job_id}_{number}" for job_id, count in parts for number in range(count)]


def id_of(run: RunFolder) -> str:
    """Return the scheduler's id of a run's newest attempt, of an element also before it begins; empty before it has."""
    ledger, array = read_ledger(run), array_of(run)
    if ledger or array is None:
        return str(ledger[-1]["job_id"]) if ledger else ""
    return dict(enumerate(ids_of_elements(parts_of(array)))).get(int(run.path.name), "")


def _state(counts: Counter[State]) -> State:
    if all(state.is_final for state in counts):
        unsuccessful = set(counts) - {State.COMPLETED}
        if unsuccessful == {State.CANCELLED}:
            return State.CANCELLED
        return State.FAILED if unsuccessful else State.COMPLETED
    begun = any(state is not State.PENDING for state in counts)
    return State.RUNNING if begun else State.PENDING
