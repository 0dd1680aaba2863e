"""Have a rank that the function, or the import of its module, ends by ``os._exit(0)`` tell it, and end the others.

To ``srun --kill-on-bad-exit`` exit code 0 is no bad exit: the other ranks would wait for this one until the time limit,
and nobody would be told of it. What a C library ends by itself is not seen.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from helpers.runtime.run.outcome import Kind, outcome_now

if TYPE_CHECKING:
    from pathlib import Path

WORDS = "os._exit(0) ended the process before the function had returned"


def refuse_silent_exit(outcome: Path) -> None:
    """Put another ``os._exit`` in the place of Python's, for this process; what it forks may leave as ever.

    Args:
        outcome: The file in which this rank tells how its function ended.
    """
    owner, leave = os.getpid(), os._exit

    def exit_with_a_word(status: int) -> NoReturn:
        if status == 0 and os.getpid() == owner and not outcome.exists():
            print(f"[helpers] {WORDS}", file=sys.stderr, flush=True)
            told = outcome_now(Kind.EXITED, error=WORDS, exit_code=1)
            told.write(outcome)
            status = told.exit_code
        leave(status)

    os._exit = exit_with_a_word
