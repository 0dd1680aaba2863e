"""Tell a CUDA out-of-memory error by torch's words for it: on which device, and how much was in use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from helpers.errors import GpuOutOfMemory

if TYPE_CHECKING:
    from helpers.errors import JobFacts

_SIZE = r"([\d.]+ [KMGT]?i?B)"
_HINT = (
    "smaller batches, or torch.autocast in bfloat16, or torch.utils.checkpoint; "
    "or GPUs with more memory: helpers gpus lists the types"
)


def gpu_out_of_memory(name: str, error: str, facts: JobFacts) -> GpuOutOfMemory | None:
    """Return the error for a rank that ran out of GPU memory; None for any other exception.

    Args:
        name: Of the run.
        error: The exception's line, ``Class: message``, as the rank reported it.
        facts: What else is known.
    """
    if "OutOfMemoryError" not in error.partition(":")[0] and "CUDA out of memory" not in error:
        return None
    wanted = re.search(rf"Tried to allocate {_SIZE}", error)
    device = re.search(rf"GPU (\d+) has a total capacity of {_SIZE}", error)
    peak = re.search(rf"this process has {_SIZE} memory in use", error)
    where = f"GPU {device[1]} ({device[2]})" if device else "its GPU"
    parts = [f"{name} ran out of memory on {where}"]
    parts += [f"it tried to allocate {wanted[1]}"] if wanted else []
    parts += [f"it had {peak[1]} in use"] if peak else []
    return GpuOutOfMemory("; ".join(parts) + ".", facts=facts, hint=_HINT)
