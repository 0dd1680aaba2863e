"""Ask the driver why the clocks of the GPU that is measured are lower than they could be."""

from __future__ import annotations

import torch

from helpers.errors import InvalidRequest
from helpers.runtime.gpus.nvml import read_slowdowns


def slowed_by(device: torch.device) -> list[str]:
    """Return what slows a CUDA device down at this moment; nothing where the driver does not tell."""
    if device.type != "cuda":
        return []
    try:
        return read_slowdowns(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    except InvalidRequest:  # a driver that does not answer: what was measured counts all the same
        return []
