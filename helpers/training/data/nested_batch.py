"""Move a batch to a device whatever its shape: tensors in tuples, named tuples, mappings, dataclasses, nested."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import torch


def move(batch: Any, device: torch.device) -> Any:
    """Return a batch of the same shape with its tensors on ``device``.

    An object with a method ``to`` (a ``PackedSequence``, a tokenizer's encoding) moves itself. What is no tensor
    stays as it is. The batch that was given is not changed.

    Args:
        batch: Tensors, and tuples, lists, mappings and dataclass instances of such.
        device: Where to. From page-locked memory the copy is only begun: it is ordered on the current stream.
    """
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=device.type == "cuda")
    if callable(getattr(batch, "to", None)):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return _move_mapping(batch, device)
    if isinstance(batch, tuple | list):
        return _move_sequence(batch, device)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return _move_dataclass(batch, device)
    return batch


def tensors_in(batch: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that :func:`move` would find, and those that an object with ``to`` has as attributes."""
    if isinstance(batch, torch.Tensor):
        yield batch
        return
    values: Any = ()
    if isinstance(batch, Mapping):
        values = batch.values()
    elif isinstance(batch, tuple | list):
        values = batch
    elif hasattr(batch, "__dict__") and (dataclasses.is_dataclass(batch) or callable(getattr(batch, "to", None))):
        values = vars(batch).values()
    for value in values:
        yield from tensors_in(value)


def _move_sequence(batch: Any, device: torch.device) -> Any:
    values = [move(value, device) for value in batch]
    return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)


def _move_mapping(batch: Mapping[Any, Any], device: torch.device) -> Any:
    moved = {key: move(value, device) for key, value in batch.items()}
    if type(batch) is dict or not isinstance(batch, MutableMapping):
        return moved
    other = copy.copy(batch)  # keeps a default factory, and whatever else the class has
    other.update(moved)
    return other


def _move_dataclass(batch: Any, device: torch.device) -> Any:
    other = copy.copy(batch)  # not replace(): __post_init__ has run once, and may not be fit to run again
    for field in dataclasses.fields(batch):
        object.__setattr__(other, field.name, move(getattr(batch, field.name), device))  # frozen ones too
    return other
