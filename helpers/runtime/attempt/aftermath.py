"""Tell an error of the function from one that only follows from the request to stop.

Where Slurm signals every process of a job (``ProctrackType=linuxproc`` or ``pgid``), the programs and workers that
a function has started end by the signal before it reaches a boundary between two steps, and what waits for them
raises. That is no failure of the function: it goes on from its newest checkpoint.
"""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING

from helpers.runtime import stop
from helpers.runtime.exit_code import SIGNAL_BASE, as_shell_code

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS = "|".join(re.escape(signal.strsignal(number) or "") for number in stop.STOP_SIGNALS)
# torch.utils.data (a worker was killed, or is gone) and concurrent.futures.process
_OF_WORKERS = re.compile(
    rf"DataLoader worker \(pid.*\) (is killed by signal: ({_WORDS})|exited unexpectedly)"
    r"|A process in the process pool was terminated abruptly"
)


def follows_from_stop(error: BaseException) -> bool:
    """Say whether ``error`` was raised because a stop signal has ended a process that this one had started."""
    return stop.stop_requested() and any(_is_childs_death(link) for link in _chain(error))


def _is_childs_death(error: BaseException) -> bool:
    if isinstance(error, subprocess.CalledProcessError):
        code = error.returncode
        return as_shell_code(code) - SIGNAL_BASE in stop.STOP_SIGNALS
    return isinstance(error, RuntimeError) and _OF_WORKERS.search(str(error)) is not None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
