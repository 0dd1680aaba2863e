"""Agree on the step at which all ranks save or leave, without a collective in every step.

A *boundary* is a moment between two steps; all ranks pass the same boundaries, numbered alike, at different
times. Each rank has a thread that looks, ten times a second, whether somebody wants something (the scheduler
asks one rank to stop; rank 0's clock says that it is time to save). Once one does:

1. the thread of every rank notes, under the lock that its main thread takes at each boundary, the number of
   the *next* boundary, and tells it to all; from then on the main thread may not pass a boundary unasked;
2. the agreed boundary is the largest of these numbers;
3. each main thread goes on to that boundary and acts there.

The threads answer also while their main thread is blocked in a collective, so a rank that waits at a
boundary waits for threads alone and never for a step: no deadlock. At most one more step is done by those
that were behind.
"""

from __future__ import annotations

import enum
import threading
import time
from typing import TYPE_CHECKING

from helpers.runtime import stop
from helpers.training.ranks.peers import PeersLost, close_before_end

if TYPE_CHECKING:
    from helpers.training.checkpoints.last_moment import LastMoment
    from helpers.training.ranks.peers import Peers

POLL_S = 0.1
ANSWER_S = 20.0  # a peer that has not answered by then is gone; Slurm kills 30 s after it asked


class Action(enum.IntEnum):
    """What all ranks do at the agreed boundary; the larger one wins."""

    NOTHING = 0
    SAVE = 1
    LEAVE = 2


class LoneAgreement:
    """The same for one process: nobody to agree with.

    Args:
        save_every_s: Seconds between two saves; None if the clock does not matter.
        last_moment: When to leave unasked.
    """

    def __init__(self, save_every_s: float | None, last_moment: LastMoment) -> None:
        self._save_every_s = save_every_s
        self._last_moment = last_moment
        self._due = float("inf") if save_every_s is None else time.monotonic() + save_every_s

    def reach_boundary(self) -> Action:
        """Return what to do at this boundary."""
        if self._last_moment.has_come():
            stop.request_stop(stop.OUT_OF_TIME)
        if stop.stop_requested():
            return Action.LEAVE
        return Action.SAVE if time.monotonic() >= self._due else Action.NOTHING

    def saved(self) -> None:
        """Begin the time to the next save."""
        if self._save_every_s is not None:
            self._due = time.monotonic() + self._save_every_s


class SharedAgreement:
    """The agreement among several processes; one object in each of them.

    Args:
        peers: The processes of the run; the thread makes a connection of its own.
        save_every_s: Seconds between two saves, by rank 0's clock; None if the clock does not matter.
        last_moment: When to leave unasked; rank 0 alone measures saves.
    """

    def __init__(self, peers: Peers, save_every_s: float | None, last_moment: LastMoment) -> None:
        self._peers = peers.for_another_thread()
        self._clock = LoneAgreement(save_every_s if peers.is_main else None, last_moment)
        self._condition = threading.Condition()
        self._passed = 0  # boundaries that the main thread has passed
        self._frozen = False  # whether it must ask before it passes another
        self._agreed: tuple[int, Action] | None = None
        self._round = 0
        self._lost: PeersLost | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="helpers-agreement", daemon=True)
        self._thread.start()
        close_before_end(lambda _: self.close())

    def reach_boundary(self) -> Action:
        """Pass a boundary and return what all ranks do at it.

        Raises:
            PeersLost: If somebody wants to stop and not all ranks answer.
        """
        with self._condition:
            self._passed += 1
            if not self._frozen and self._lost is None:
                return Action.NOTHING
            return self._ask()

    def saved(self) -> None:
        """Begin the time to the next save."""
        self._clock.saved()

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2 * POLL_S + 1)

    def _ask(self) -> Action:
        """Wait for the agreed boundary (the condition's lock is held)."""
        known = self._condition.wait_for(
            lambda: self._agreed is not None or self._lost is not None, timeout=ANSWER_S + 5 * POLL_S
        )
        if self._lost is not None and (self._frozen or stop.stop_requested()):
            raise self._lost
        if not known or self._agreed is None:
            if self._lost is not None:
                return Action.NOTHING
            raise PeersLost(f"No agreement on where to stop after {ANSWER_S:.0f} s.")
        boundary, action = self._agreed
        if self._passed < boundary:
            return Action.NOTHING
        self._frozen, self._agreed = False, None
        self._round += 1
        self._clock.saved()
        if action is Action.LEAVE:
            self._closed.set()
        self._condition.notify_all()
        return action

    def _listen(self) -> None:
        try:
            while not self._closed.is_set():
                wish = self._own_wish()
                if wish or self._peers.knows(f"{self._round}/asked"):
                    self._answer(wish)
                    self._wait_until_done()
                else:
                    stop.wait_for_stop(POLL_S)
        except PeersLost as error:
            with self._condition:
                self._lost = error
                self._condition.notify_all()

    def _own_wish(self) -> Action:
        if stop.stop_requested():
            return Action.LEAVE
        return self._clock.reach_boundary()

    def _answer(self, wish: Action) -> None:
        """Take part in one round: tell the next boundary, wait for the others', know the agreed one."""
        with self._condition:
            self._frozen = True
            following = self._passed + 1
        number = self._round
        self._peers.tell(f"{number}/asked", "1")
        self._peers.tell(f"{number}/next/{self._peers.rank}", f"{following} {wish.value}")
        answers = [answer.split() for answer in self._peers.hear_all(f"{number}/next", timeout_s=ANSWER_S)]
        with self._condition:
            self._agreed = (
                max(int(boundary) for boundary, _ in answers),
                Action(max(int(action) for _, action in answers)),
            )
            self._condition.notify_all()

    def _wait_until_done(self) -> None:
        """Wait until the main thread has acted, so that one round ends before the next begins."""
        with self._condition:
            while self._frozen and not self._closed.is_set():
                self._condition.wait(POLL_S)
