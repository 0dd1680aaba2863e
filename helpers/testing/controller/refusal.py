"""A submission that the controller refuses."""

from __future__ import annotations


class Refusal(Exception):
    """The controller refuses a job; its message is the reason.

    Args:
        reason: Slurm's sentence.
        before: Lines that sbatch prints before it.
    """

    def __init__(self, reason: str, *, before: str = "") -> None:
        super().__init__(reason)
        self.before = before
