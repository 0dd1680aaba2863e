"""Say at Ctrl-C what still runs: the wait is over, the jobs are not."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from helpers.submission.watcher import watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTED = 10


@contextlib.contextmanager
def interruption_explained() -> Iterator[None]:
    """List the jobs of this process that have not ended when somebody interrupts it, and how to end them."""
    try:
        yield
    except KeyboardInterrupt:
        _list_unfinished()
        raise


def _list_unfinished() -> None:
    jobs = watcher.unfinished()
    if not jobs:
        return
    shown = [f"  {job.id} {job.name}: {job.state_by_folder}" for job in jobs[:_LISTED]]
    more = [f"  and {len(jobs) - _LISTED} more"] if len(jobs) > _LISTED else []
    ids = " ".join(job.id for job in jobs)
    lines = ["", "helpers: interrupted; these go on:", *shown, *more]
    print("\n".join([*lines, f"  back to one: helpers logs -f JOB   end them: helpers cancel {ids}"]), file=sys.stderr)
