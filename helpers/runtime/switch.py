"""Read a variable that switches something on or off, by the same words wherever there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS = {"1": True, "true": True, "0": False, "false": False}


def read_switch(environment: Mapping[str, str], name: str) -> bool | None:
    """Return whether ``name`` is on (``1``, ``true``) or off (``0``, ``false``), in any case; None for neither."""
    return _WORDS.get(environment.get(name, "").strip().lower())
