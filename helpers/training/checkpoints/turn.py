"""Let one Checkpointer stop a run.

The first of two that meets a request to stop leaves for the requeue, and the other would never save: the next
attempt would go on with a state that is pieced together from two steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path


class Turn:
    """A Checkpointer's turn to pass boundaries; it is over as soon as another one of this process passes one.

    Args:
        folder: Where its checkpoints are.
    """

    holder: Turn | None = None
    """Whose turn it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begun = False

    def begin(self) -> None:
        """Take the turn from whoever had it.

        Raises:
            InvalidRequest: If it has been this one's before: the two belong to one loop.
        """
        if self._begun and Turn.holder is not None:
            raise InvalidRequest(
                "One Checkpointer stops a run, and two are stepping by turns, that of "
                f"{self.folder} and that of {Turn.holder.folder}: a stop would be saved by one of them alone.",
                hint='one for both: Checkpointer({"a": …, "b": …}); a second one steps when the first is done',
            )
        self._begun = True
        Turn.holder = self
