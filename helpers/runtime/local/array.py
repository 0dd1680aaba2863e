"""Run the elements of an array on this machine, a few at a time, each by the array's script.

Started by :class:`helpers.submission.clusters.local.LocalCluster` as one process; element ``n`` is the job
``local-<process id>_<n>``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from helpers.runtime import stop
from helpers.runtime.current import LOCAL_ID_VARIABLE
from helpers.runtime.rank.thread_count import available_cpus
from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.element import describe_element, element_folder, make_element
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, State, Status, write_status

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRAY_VARIABLE = "HELPERS_ARRAY"
ELEMENT_VARIABLE = "HELPERS_ELEMENT"
_POLL_S = 0.05


def main() -> NoReturn:
    """Start one element after another until all have ended, or this process is asked to stop."""
    stop.listen_for_stop()
    array = RunFolder(Path(os.environ[ARRAY_VARIABLE]))
    description = read_description(array)
    waiting = _not_cancelled(array, description)
    running: list[subprocess.Popen[bytes] | None] = [None] * _at_a_time(description)
    while not stop.stop_requested():
        for place, process in enumerate(running):
            if process is None or process.poll() is not None:
                running[place] = _start_next(array, waiting)
        if not any(running):
            break
        time.sleep(_POLL_S)
    for process in filter(None, running):
        if stop.stop_requested():
            process.terminate()
        process.wait()
    sys.exit(0)


def _at_a_time(description: Description) -> int:
    """Return how many elements may run at once: what was asked for, else as many as there are CPUs for."""
    return description.max_running or max(1, len(available_cpus()) // description.processes)


def _not_cancelled(array: RunFolder, description: Description) -> Iterator[int]:
    """Yield the elements to start; one that was cancelled while it waited is given its ending."""
    for index in range(len(description.elements)):
        run = element_folder(array, index)
        if not run.cancel_mark.exists():
            yield index
            continue
        make_element(run, describe_element(description, index))
        ending = Ending(cause="cancelled", detail="before it began")
        write_status(run, Status(state=State.CANCELLED, job_id=_job_id(index), attempt=0, ending=ending))


def _start_next(array: RunFolder, waiting: Iterator[int]) -> subprocess.Popen[bytes] | None:
    index = next(waiting, None)
    if index is None:
        return None
    environment = {**os.environ, ELEMENT_VARIABLE: str(index), LOCAL_ID_VARIABLE: _job_id(index)}
    return subprocess.Popen(["bash", str(array.script)], env=environment, stdin=subprocess.DEVNULL)


def _job_id(index: int) -> str:
    return f"local-{os.getpid()}_{index}"


if __name__ == "__main__":
    main()
