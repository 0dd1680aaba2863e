"""Runs inside the job, with torch: device, process group, checkpoints, data loader. The only importer of torch.

What takes longest to import loads on first use, so that ``get_device`` and ``distributed`` cost little beside
``import torch``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from helpers.training.devices.device import get_device
from helpers.training.devices.precision import autocast, make_scaler, precision
from helpers.training.devices.threads import suggest_workers
from helpers.training.ranks.collectives import all_mean, is_main, main_first
from helpers.training.ranks.data_parallel import wrap
from helpers.training.ranks.distributed import distributed

if TYPE_CHECKING:
    from helpers.training.checkpoints.checkpointer import Checkpointer
    from helpers.training.data.loader import make_loader
    from helpers.training.data.prefetching import prefetch
    from helpers.training.data.staging import stage

_LATER = {
    "Checkpointer": "helpers.training.checkpoints.checkpointer",
    "make_loader": "helpers.training.data.loader",
    "prefetch": "helpers.training.data.prefetching",
    "stage": "helpers.training.data.staging",
}
__all__ = [
    "Checkpointer",
    "all_mean",
    "autocast",
    "distributed",
    "get_device",
    "is_main",
    "main_first",
    "make_loader",
    "make_scaler",
    "precision",
    "prefetch",
    "stage",
    "suggest_workers",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'helpers.training' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value
