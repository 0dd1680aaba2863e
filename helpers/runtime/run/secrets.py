"""Carry secrets into the job through ``private/``, which only the owner can read, and nowhere else."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from helpers.runtime.run.element import array_of
from helpers.runtime.run.folder import read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from helpers.runtime.run.folder import RunFolder


def write_secrets(run: RunFolder, secrets: Mapping[str, str]) -> None:
    """Write the variables that the ranks are to have; nothing where there are none."""
    if secrets:
        write_private(_file(run), json.dumps(dict(secrets)).encode(), durable=False)


def load_secrets(run: RunFolder) -> None:
    """Set in this process the variables that are not set yet.

    Raises:
        PermissionError: If the file or its folder is another's, or others can write to it.
    """
    for name, value in read_secrets_of(run).items():
        os.environ.setdefault(name, value)


def read_secrets_of(run: RunFolder) -> dict[str, str]:
    """Return the variables that were written for a run, or for the array that it is an element of."""
    file = _file(array_of(run) or run)
    if not file.exists():
        return {}
    secrets: dict[str, str] = json.loads(read_private(file))
    return secrets


def _file(run: RunFolder) -> Path:
    return run.private / "environment"
