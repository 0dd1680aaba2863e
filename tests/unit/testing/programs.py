"""Callables that the tests submit, and that a job can import."""

import time
from typing import Any

from helpers import current_run


class Sleeper:
    """Sleep in the first attempt; say in the second that it has come back. Resumes as submitit's do."""

    def __call__(self, seconds: float) -> str:
        if current_run().attempt == 0:
            time.sleep(seconds)
            return "slept"
        return "came back"

    def checkpoint(self, seconds: float) -> Any:
        """Ask to be called again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, seconds)


def count(last: int, pause_s: float) -> dict[str, Any]:
    """Count to ``last``, slowly in the first attempt; stop when asked to, and go on from there."""
    from helpers.training import Checkpointer

    state: dict[str, Any] = {"counted": [], "attempts": []}
    attempt = current_run().attempt
    checkpoint = Checkpointer(state, save_every="1h")
    for number in checkpoint.steps(last):
        state["counted"].append(number)
        if attempt not in state["attempts"]:
            state["attempts"].append(attempt)
        time.sleep(pause_s if attempt == 0 else 0)
    return state
