"""Read what git says where it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_complaint(said: Sequence[str]) -> tuple[str, str]:
    """Return git's reason, and a hint with the line that it gives as a cure; empty where it gives none.

    Args:
        said: The lines that it printed, one at least, in English.
    """
    reason = next((line for line in said if line.startswith("fatal: ")), said[-1])
    cure = next((line.strip() for line in said if line.strip().startswith("git config")), "")
    return reason, f"if you trust its owner: {cure}" if cure else ""
