"""Do between two steps, and between two epochs, what all ranks have agreed on: save, or save and leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.training.checkpoints.leaving import leave
from helpers.training.checkpoints.state import at_last_step
from helpers.training.checkpoints.stop_agreement import Action, LoneAgreement, SharedAgreement
from helpers.training.checkpoints.storage import Position
from helpers.training.data.loader import Loader

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from helpers.training.checkpoints.in_flight import SaveInFlight
    from helpers.training.checkpoints.saving import Saver
    from helpers.training.ranks.peers import Peers


class Boundaries:
    """The boundaries of one training, which all ranks pass alike.

    Args:
        state: What is saved.
        saver: Writes.
        saves: What it writes.
        peers: The ranks.
        every_steps: Steps between two saves; None if their number does not matter.
        every_s: Seconds between two saves, by rank 0's clock; None if the clock does not matter.
    """

    def __init__(
        self,
        state: MutableMapping[str, Any],
        saver: Saver,
        saves: SaveInFlight,
        peers: Peers,
        *,
        every_steps: int | None,
        every_s: float | None,
    ) -> None:
        self._state = state
        self._saver = saver
        self._saves = saves
        self._peers = peers
        self._every_steps = every_steps
        self._agreement: LoneAgreement | SharedAgreement = (
            LoneAgreement(every_s, saver.last_moment)
            if peers.world_size == 1
            else SharedAgreement(peers, every_s, saver.last_moment)
        )
        self._in_epoch = False
        self._reserved = False
        self._deferred = Action.NOTHING
        self._given = 0  # batches, by all loaders, when the step began

    def begin_epoch(self) -> None:
        """Take note that what comes is a loop over the loader."""
        self._in_epoch = True

    def end_epoch(self) -> None:
        """Take note that the loop and what follows it, the evaluation, are over."""
        self._in_epoch = False

    def pass_step(self, step: int, epoch: int) -> None:
        """Act after a step; where there is nothing to do, learn what became of the last save.

        Args:
            step: Steps done.
            epoch: The one that goes on, from 0.

        Raises:
            LeaveForRequeue: When the state is saved and the requeue is asked for.
            PeersLost: If somebody must stop and not all ranks answer.
            SaveFailed: If a save that was asked for could not be written.
        """
        action = self._agreement.reach_boundary()
        if self._every_steps is not None and step % self._every_steps == 0:
            action = max(action, Action.SAVE)
        if action is not Action.NOTHING or self._deferred is not Action.NOTHING:
            self._act(max(action, self._deferred), Position(step), epoch)
        elif self._saves.ended:
            self._saves.settle()
        elif not self._reserved:  # by now the optimizer has made its part of the state
            self._reserved = True
            self._saver.reserve(self._state)
        self._given = Loader.batches_given

    def pass_epoch(self, step: int, epochs_done: int) -> None:
        """Act between two epochs; raise as ``pass_step`` does."""
        action = max(self._agreement.reach_boundary(), self._deferred)
        self._act(action, Position(step, epochs_done), epochs_done)

    def begin_save(self, position: Position, epoch: int, *, asked: bool) -> None:
        """Begin a save, and the time to the next one.

        Raises:
            SaveFailed: If the one before was asked for and failed, or this one is and cannot be begun.
        """
        try:
            self._saves.begin(position, epoch, self._state, asked=asked)
        finally:
            self._agreement.saved()

    def _act(self, action: Action, position: Position, epoch: int) -> None:
        """Do what was agreed, or put it off from an epoch's last step to the epoch's end.

        A run that went on from the last step would find its loop over the loader empty, and whatever the code
        after that loop expects from it missing. A stop is saved there all the same, in case the scheduler
        does not wait for the evaluation.
        """
        self._deferred = Action.NOTHING
        if self._in_epoch and action is not Action.NOTHING and at_last_step(self._state, self._given):
            self._deferred = action
            if action is Action.LEAVE:
                self._saves.save_at_the_end(position, epoch, self._state)
        elif action is Action.LEAVE:
            leave(self._saves, self._peers, position, epoch, self._state)
        elif action is Action.SAVE:
            self.begin_save(position, epoch, asked=False)
