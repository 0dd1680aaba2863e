"""Wrap a model for training in several processes, so that a resumed run is the same run."""

from __future__ import annotations

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.training.device import get_device


def wrap(model: nn.Module, *, exact_resume: bool = True) -> nn.Module:
    """Return the model ready for this run: data parallel in several processes, itself in one.

    ``DistributedDataParallel`` rebuilds its buckets of gradients after the first step, in the order in which
    they arrived. That changes the order of summation, so the first step after a resume rounds differently
    from the same step of an uninterrupted run. With ``find_unused_parameters`` the buckets stay as they were
    built; it costs one walk over the graph a step, and torch's C++ part says once a process that it "did not
    find any unused parameters", which is as it should be.

    Args:
        model: On its device already (``model.to(get_device())``).
        exact_resume: Whether a resumed run must equal the uninterrupted one bit for bit; False saves the
            walk over the graph, and lets the buckets be rebuilt.

    Returns:
        A ``DistributedDataParallel`` in several processes, else ``model``.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return model
    device = get_device()
    return DistributedDataParallel(
        model,
        device_ids=None if device.type == "cpu" else [device.index],
        find_unused_parameters=exact_resume,
    )
