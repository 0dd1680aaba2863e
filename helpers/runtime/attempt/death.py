"""Find the first process of an attempt that died without a word: ``srun``, or the supervisor here, has printed it."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.runtime.exit_code import SIGNAL_BASE
from helpers.runtime.stop import STOP_SIGNALS

if TYPE_CHECKING:
    from helpers.runtime.run.outcome import Outcome

_SIGNALS = {*signal.valid_signals(), 125}  # 125: what Slurm calls out of memory
_FIRST_DEATH = re.compile(r"error: (\S+): tasks? (\d+)\S*: (.+)")
_SIGNALS_BY_WORDS = {signal.strsignal(number): number for number in signal.valid_signals()}


@dataclass(frozen=True)
class Death:
    """The end of a rank's process that ``srun``, or the supervisor on this machine, was the first to see.

    Args:
        rank: Which; None where nobody said.
        node: Where it ran.
        words: As they were printed.
        exit_code: As a shell gives it.
    """

    rank: int | None
    node: str | None
    words: str
    exit_code: int

    @property
    def by_signal(self) -> bool:
        """Whether a signal ended it."""
        return self.exit_code - SIGNAL_BASE in _SIGNALS

    @property
    def by_stop_signal(self) -> bool:
        """Whether it was one that asks to stop."""
        return self.exit_code - SIGNAL_BASE in STOP_SIGNALS


def first_death(log: str) -> Death | None:
    """Return the first death that an attempt's batch log tells; None where it tells of none."""
    match = _FIRST_DEATH.search(log)
    if match is None:
        return None
    node, rank, words = match[1], int(match[2]), match[3].strip()
    if words.startswith("Exited with exit code "):
        return Death(rank, node, words, int(words.rsplit(maxsplit=1)[1]))
    number = _SIGNALS_BY_WORDS.get(words.removesuffix(" (core dumped)"), signal.SIGKILL)
    return Death(rank, node, words, SIGNAL_BASE + number)


def died_by_itself(death: Death | None, reported: dict[int, Outcome]) -> bool:
    """Say whether the first death is the cause: ``srun`` asks the other ranks to stop because of it."""
    return death is not None and death.rank not in reported and not death.by_stop_signal


def unseen_death(outcomes: dict[int, Outcome | None], exit_code: int) -> Death:
    """Take the first rank that said nothing."""
    return Death(next((rank for rank, outcome in outcomes.items() if outcome is None), None), None, "", exit_code)


def signal_name(number: int) -> str:
    """Return a signal's name; Slurm's 125, its word for the memory limit, has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
