"""Begin saves one after another, and learn what became of each: a full disk costs a checkpoint, not the training."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.runtime import unfinished
from helpers.training.checkpoints.saving import SaveFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.training.checkpoints.saving import Saver
    from helpers.training.checkpoints.storage import Position


@dataclass(frozen=True)
class _Save:
    """A save in flight.

    Args:
        position: Where in the training; None for a copy of the best state.
        asked: Whether the user's code asked for it, and so wants to know of its failure.
    """

    position: Position | None
    asked: bool


class SaveInFlight:
    """The save that is being written, if there is one: at most one at a time.

    Args:
        saver: Writes.
        is_main: Whether this rank is the one that speaks.
    """

    def __init__(self, saver: Saver, *, is_main: bool) -> None:
        self._saver = saver
        self._is_main = is_main
        self._save: _Save | None = None
        self._complained = False
        self.durable: Position | None = None
        """The newest checkpoint that this run can go on from, as far as this rank knows."""

    @property
    def ended(self) -> bool:
        """Whether one has ended and nobody has asked what became of it."""
        return self._saver.ended

    def begin(self, position: Position, epoch: int, state: Mapping[str, Any], *, asked: bool) -> None:
        """Begin a save, once the one before has ended: all ranks know then alike what is durable.

        What is saved already is saved again only where that is asked for, beside the one that is there.

        Raises:
            SaveFailed: If the one before was asked for and failed, or this one is and cannot be begun.
        """
        self.settle()
        saved = self._saved_at(position)
        if saved is not None:
            if not asked:
                return
            position = saved.again()
        try:
            self._saver.start(position, epoch, state)
        except SaveFailed as error:
            if asked:
                raise
            self._complain(error)
            return
        self._flies(_Save(position, asked=asked))

    def begin_best(self, position: Position, epoch: int, state: Mapping[str, Any], facts: dict[str, Any]) -> None:
        """Begin to save the best state; the save before has been settled."""
        self._saver.start_best(position, epoch, state, facts)
        self._flies(_Save(None, asked=False))

    def settle(self) -> None:
        """Wait for the save in flight, if there is one, and take note of what became of it.

        Raises:
            SaveFailed: If it was asked for and could not be written.
        """
        if self._save is None:
            return
        self._saver.await_end()  # Ctrl-C here leaves it in flight, for whoever asks next
        save, self._save = self._save, None
        if save is None:  # another thread has asked meanwhile
            return
        unfinished.discard(id(self))
        try:
            self._saver.finish()
        except SaveFailed as error:
            if save.asked:
                raise
            self._complain(error)
            return
        if save.position is not None:
            self.durable = save.position
            if self._complained:
                self.say(f"checkpoints can be written again (step {save.position.step})")
                self._complained = False

    def save_and_wait(self, position: Position, epoch: int, state: Mapping[str, Any]) -> SaveFailed | None:
        """Save, unless that is done, and wait until it is durable; return why it could not be written."""
        try:
            self.settle()
        except SaveFailed as error:  # what comes now is newer
            self._complain(error)
        if self._saved_at(position) is not None:
            return None
        try:
            self.begin(position, epoch, state, asked=True)
            self.settle()
        except SaveFailed as error:
            return error
        return None

    def save_at_the_end(self, position: Position, epoch: int, state: Mapping[str, Any]) -> None:
        """Save and wait; a failure is told, and training goes on to its end."""
        failure = self.save_and_wait(position, epoch, state)
        if failure is not None:
            self._complain(failure)

    def say(self, message: str) -> None:
        """Print a line, in one rank."""
        if self._is_main:
            print(f"helpers: {message}", file=sys.stderr, flush=True)

    def _saved_at(self, position: Position) -> Position | None:
        """Return the newest checkpoint if it was made at that step: at ``position``, or after it; else None."""
        newest = self.durable
        return newest if newest is not None and newest.step == position.step and newest >= position else None

    def _flies(self, save: _Save) -> None:
        self._save = save
        unfinished.add(id(self), self.settle)

    def _complain(self, error: SaveFailed) -> None:
        """Warn once, until a checkpoint can be written again."""
        if not self._complained:
            self.say(f"{error}\nhelpers: training goes on; the older checkpoints are untouched")
        self._complained = True
