"""Wrap a model for training in several processes, so that a resumed run is the same run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.runtime.switch import read_switch
from helpers.training.devices.device import get_device

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARD_VARIABLE = "HELPERS_SHARD"  # "1": what the setting says; an argument counts more


def wrap(
    model: nn.Module, *, shard: bool | None = None, exact_resume: bool = True, find_unused_parameters: bool = False
) -> nn.Module:
    """Return the model ready for this run: data parallel in several processes, itself in one.

    ``DistributedDataParallel`` sums gradients in buckets, and rebuilds them after its first step, in the order in which
    the gradients arrived. That changes the order of summation, so the first step after a resume would round
    differently from the same step of an uninterrupted run. So the buckets are settled here, before the first step.

    Args:
        model: On its device already (``model.to(get_device())``).
        shard: Whether each rank keeps only its share of parameters, gradients and optimizer state (FSDP2), for
            a model that does not fit on one GPU. The optimizer is made after it. None for what the setting
            ``shard`` (or ``HELPERS_SHARD``) says, False without one. A ``Checkpointer`` refuses such a model.
        exact_resume: Whether a resumed run must equal the uninterrupted one bit for bit; False leaves the order of
            the buckets to the first step, which pays where layers are used in another order than they were defined.
            Of no effect where the model is sharded.
        find_unused_parameters: Whether a step may leave parameters without a gradient, as in
            ``DistributedDataParallel``: it costs a walk over the graph at each step.

    Returns:
        In several processes a ``DistributedDataParallel``, or ``model`` itself, sharded; in one ``model``.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return model
    if shard if shard is not None else read_switch(os.environ, SHARD_VARIABLE) is True:
        return _shard(model)
    device = get_device()
    settles_by_itself = exact_resume and _has_sparse_gradients(model)  # its buckets take no dense gradient
    parallel = DistributedDataParallel(
        model,
        device_ids=None if device.type == "cpu" else [device.index],
        find_unused_parameters=find_unused_parameters or settles_by_itself,
    )
    if exact_resume and not parallel.find_unused_parameters:  # with it, buckets stay as they were built
        _settle_buckets(parallel)
    return parallel


def _settle_buckets(parallel: DistributedDataParallel) -> None:
    """Take a step without a model, in which gradients of zero arrive in the reverse order of the parameters.

    The buckets are then rebuilt by that order when the first batch comes, and never again.
    """
    model = parallel.module
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    parallel.module = _Touch(model, parameters)
    try:
        outputs = parallel(torch.empty(0))  # an input: torch has none of it on a GPU without one
    finally:
        parallel.module = model
    torch.autograd.backward(outputs, [torch.zeros_like(output) for output in outputs])
    for parameter, gradient in zip(parameters, before, strict=True):
        parameter.grad = gradient


class _Touch(nn.Module):
    """Stands in for a model, and takes part with each parameter as it is: the backward pass reaches the last first."""

    def __init__(self, model: nn.Module, parameters: list[nn.Parameter]) -> None:
        super().__init__()
        self._model = (model,)  # in a tuple it is no part of this module
        self._parameters_of_it = tuple(parameters)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
        """Return the model's, which are sent to all ranks before each step."""
        return self._model[0].named_buffers(*args, **kwargs)

    def forward(self, _: torch.Tensor) -> list[torch.Tensor]:
        """Return a view of each parameter."""
        return [parameter.view_as(parameter) for parameter in self._parameters_of_it]


def _has_sparse_gradients(model: nn.Module) -> bool:
    return any(isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse for module in model.modules())


def _shard(model: nn.Module) -> nn.Module:
    """Shard the items of each outermost ``ModuleList``, the layers of a transformer, then what is left.

    A layer that is sharded by itself is gathered only while it computes.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # takes long to import, and few need it

    mesh = init_device_mesh(get_device().type, (dist.get_world_size(),))
    for layer in _layers(model):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _layers(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, nn.ModuleList):
        return list(module)
    return [layer for child in module.children() for layer in _layers(child)]
