"""Copy a training state at one moment, so that training may go on while the copy is written.

The copies of tensors lie in buffers that are used again for the next snapshot: making new memory of the
state's size costs more than the copying. For tensors on a GPU the buffers are page-locked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from helpers.training.encoding import Encoder
from helpers.training.random_state import capture_random_state
from helpers.training.state import capture, find_generators

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A state as it was at one moment.

    Args:
        own: What this rank alone has, as JSON: its random generators.
        shared: What is no tensor of the state that all ranks share, as JSON; empty where it is not wanted.
        tensors: Its tensors by name, on the CPU. They are valid until the next snapshot is taken.
    """

    own: bytes
    shared: bytes
    tensors: Mapping[str, torch.Tensor]

    @property
    def size(self) -> int:
        """Bytes that writing it takes, within a few kilobytes."""
        tensors = sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())
        return tensors + len(self.shared) + len(self.own)


class Buffers:
    """Takes snapshots; each one overwrites the one before."""

    def __init__(self) -> None:
        self._buffers: dict[str, torch.Tensor] = {}

    def take(self, state: Mapping[str, Any], *, shared: bool) -> Snapshot:
        """Copy a state; it may be changed as soon as this returns.

        Args:
            state: The caller's state.
            shared: Whether to take what all ranks share; else only what this rank alone has.

        Raises:
            InvalidRequest: If there is a value of a kind that cannot be kept.
        """
        own = _own(state)
        if not shared:
            return Snapshot(own=own, shared=b"", tensors={})
        encoder = Encoder()
        pairs = [[encoder.encode(key), encoder.encode(value, f"state.{key}")] for key, value in capture(state).items()]
        text = json.dumps({"~": "dict", "v": pairs}, allow_nan=False).encode()
        return Snapshot(own=own, shared=text, tensors=self._copy(encoder.tensors))

    def _copy(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        kept: dict[str, torch.Tensor] = {}
        devices: set[torch.device] = set()
        with torch.no_grad():
            for name, tensor in tensors.items():
                buffer = self._buffers.pop(name, None)
                if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                    buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type == "cuda")
                buffer.copy_(tensor, non_blocking=True)
                kept[name] = buffer
                if tensor.device.type != "cpu":
                    devices.add(tensor.device)
        for device in devices:  # the copies are on their way until then
            torch.accelerator.synchronize(device)
        self._buffers = kept
        return kept


def _own(state: Mapping[str, Any]) -> bytes:
    generators = {path: capture(generator) for path, generator in find_generators(state).items()}
    own = {"random": capture_random_state(), "generators": generators}
    return json.dumps(Encoder(inline=True).encode(own, "random state")).encode()
