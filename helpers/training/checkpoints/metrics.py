"""Keep the numbers of a training beside its checkpoints, so that a repeated step is not counted twice.

A line of ``metrics.jsonl`` is one call of ``Checkpointer.log``. When a run goes on from an older step, the
lines after that step tell of work that was lost and is done again: they stay, marked ``superseded``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import torch

from helpers.errors import InvalidRequest
from helpers.runtime.current import current_run
from helpers.runtime.files import append_json_line, read_json_lines, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAME = "metrics.jsonl"
_OURS = {"step", "attempt", "time", "superseded"}


class Metrics:
    """The file of one run; only rank 0 has one.

    Args:
        checkpoints: The folder of checkpoints. The file lies in the run folder, else beside or in this one.
    """

    def __init__(self, checkpoints: Path) -> None:
        files = current_run().files
        if files is not None:
            self.path = files.path / _NAME
        else:
            self.path = (checkpoints.parent if checkpoints.name == "checkpoints" else checkpoints) / _NAME
        self._complained = False

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Append a line; where the disk does not take it, that is said once, and training goes on.

        Raises:
            InvalidRequest: If a name is one of ours, or a value is no number and no text.
        """
        if taken := sorted(_OURS & values.keys()):
            raise InvalidRequest(f"A metric cannot be named {', '.join(taken)}: these are written by themselves.")
        line: dict[str, Any] = {"step": step, "attempt": current_run().attempt, "time": time.time()}
        line |= {name: _plain(name, v) for name, v in values.items()}
        try:
            append_json_line(self.path, line, durable=False)
        except OSError as error:
            self._complain(error)
        else:
            self._complained = False

    def supersede(self, step: int) -> None:
        """Mark the lines after ``step``; where the disk refuses, that is said, and training goes on."""
        try:
            self._mark(step)
        except OSError as error:
            self._complain(error)

    def _mark(self, step: int) -> None:
        lines = read_json_lines(self.path)
        late = [line for line in lines if line.get("step", 0) > step and not line.get("superseded")]
        if late:
            for line in late:
                line["superseded"] = True
            write_whole(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            message = f"helpers: metrics cannot be written to {self.path}: {error.strerror or error}; training goes on"
            print(message, file=sys.stderr, flush=True)
        self._complained = True


def _plain(name: str, value: Any) -> float | int | str:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    if callable(getattr(value, "item", None)) and getattr(value, "size", 0) == 1:  # a number of NumPy
        return value.item()  # type: ignore[no-any-return]
    raise InvalidRequest(f"{name} is a {type(value).__qualname__}; a metric is a number or a text.", hint="log(loss=…)")
