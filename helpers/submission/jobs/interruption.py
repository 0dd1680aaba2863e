"""Say at Ctrl-C what still runs: the wait is over, the jobs are not.

A wait of this library says so itself. ``concurrent.futures.wait`` and ``as_completed``, a loop that sleeps, or
asyncio know nothing of jobs: where Ctrl-C ends the whole program, it is said as the program ends.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_LISTED = 10
_EXPLAINED = "_helpers_explained"


@contextlib.contextmanager
def interruption_explained() -> Iterator[None]:
    """List the jobs of this process that have not ended when somebody interrupts it, and how to end them."""
    try:
        yield
    except KeyboardInterrupt as error:
        _explain(error)
        raise


@functools.cache
def explain_at_the_end() -> None:
    """List them also where an interruption ends the program from elsewhere; the hook that was there comes after."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            _explain(error)
        before(kind, error, place)

    sys.excepthook = hook


def _explain(error: KeyboardInterrupt) -> None:
    """List what goes on, once for each interruption, on its way up through several waits."""
    if getattr(error, _EXPLAINED, False):
        return
    setattr(error, _EXPLAINED, True)
    lines, ids = _unfinished()
    if not ids:
        return
    shown = lines if len(lines) <= _LISTED else [*lines[:_LISTED], f"  and {len(lines) - _LISTED} more"]
    cure = f"  back to one: helpers logs -f JOB   end them: helpers cancel {' '.join(ids)}"
    print("\n".join(["", "helpers: interrupted; these go on:", *shown, cure]), file=sys.stderr)


def _unfinished() -> tuple[list[str], list[str]]:
    """Return a line for each job and each array that has not ended, and the ids to cancel them by."""
    from helpers.submission.jobs.watcher import watcher

    lines: dict[str, str] = {}
    arrays: dict[str, tuple[str, Counter[str]]] = {}
    for job in watcher.unfinished():
        job_id, state = job.id, str(job.state_by_folder)
        array, _, number = job_id.partition("_")
        if number:
            arrays.setdefault(array, (job.name, Counter()))[1][state] += 1
        else:
            lines[job_id] = f"  {job_id} {job.name}: {state}"
    for elements in watcher.arrays():
        for job_id in elements.unmade():
            arrays.setdefault(job_id.partition("_")[0], (elements.name, Counter()))[1]["PENDING"] += 1
    for job_id, (name, states) in arrays.items():
        counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        lines[job_id] = f"  {job_id} {name}: {counted}"
    return list(lines.values()), list(lines)
