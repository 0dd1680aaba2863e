"""Copy a training state at one moment, so that training may go on while the copy is written.

The copies of tensors lie in buffers that are used again for the next snapshot. Making new memory of the
state's size costs several times as much as the copying, so for tensors on the CPU it is made beside training,
before the first snapshot; for those on a GPU it is made, page-locked, by the first one.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from helpers.errors import InvalidRequest
from helpers.training.checkpoints.encoding import Encoder
from helpers.training.checkpoints.random_state import capture_random_state
from helpers.training.checkpoints.state import capture, find_generators

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
        self._reserving: threading.Thread | None = None

    def reserve(self, state: Mapping[str, Any]) -> None:
        """Begin to make the memory for the first snapshot of what is on the CPU, in a thread."""
        _, tensors = encode_state(state)
        kinds = {name: (t.shape, t.dtype) for name, t in tensors.items() if t.device.type == "cpu"}
        self._reserving = threading.Thread(target=self._make, args=(kinds,), name="helpers-memory")
        self._reserving.start()

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
        if self._reserving is not None:
            self._reserving.join()
            self._reserving = None
        pairs, tensors = encode_state(state)
        text = json.dumps({"~": "dict", "v": pairs}, allow_nan=False).encode()
        return Snapshot(own=own, shared=text, tensors=self._copy(tensors))

    def _make(self, kinds: Mapping[str, tuple[torch.Size, torch.dtype]]) -> None:
        for name, (shape, dtype) in kinds.items():
            self._buffers[name] = torch.empty(shape, dtype=dtype).zero_()  # it is memory once it is written to

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


def encode_state(state: Mapping[str, Any]) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """Return a state's keys and values as JSON, and its tensors, which are not copied.

    Raises:
        InvalidRequest: If there is a value that cannot be kept, or that contains itself.
    """
    encoder = Encoder()
    try:
        pairs = [[encoder.encode(key), encoder.encode(value, f"state.{key}")] for key, value in capture(state).items()]
    except RecursionError:
        raise InvalidRequest(
            "A value in the state contains itself, or is nested deeper than Python can follow.",
            hint="Keep what tells where it belongs, such as a name or an index, instead of the object.",
        ) from None
    return pairs, encoder.tensors


def _own(state: Mapping[str, Any]) -> bytes:
    generators = {path: capture(generator) for path, generator in find_generators(state).items()}
    own = {"random": capture_random_state(), "generators": generators}
    return json.dumps(Encoder(inline=True).encode(own, "random state")).encode()
