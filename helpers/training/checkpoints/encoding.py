"""Write Python values as JSON that gives back the same values, and run nothing while reading.

Plain JSON turns tuples into lists and integer keys into text, and an optimizer's state is lost without a
word. Here whatever JSON does not have is an object with a tag: ``{"~": "tuple", "v": [...]}``. Tensors and
arrays go to a file of their own and leave a reference. A dataclass or an enum is rebuilt only if its class
has been imported already, and neither ``__init__`` nor ``__post_init__`` is called: no code is run from a file.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import pathlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from helpers.errors import InvalidRequest
from helpers.training.checkpoints.tensor_file import DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

TAG = "~"

_KEEP_DENSE = "keep it as a plain tensor: tensor.to_dense(), tensor.dequantize(), tensor.float()"


@dataclasses.dataclass(frozen=True)
class ObjectState:
    """What an object's ``state_dict()`` gave, to be told from a dictionary that is a value itself."""

    state: Any


class Encoder:
    """Turn values into JSON, and collect their tensors.

    Args:
        inline: Whether arrays and tensors are written into the JSON itself, as for small per-rank states.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._inline = inline
        self._seen: dict[tuple[Any, ...], str] = {}

    def encode(self, value: Any, path: str = "state") -> Any:
        """Return ``value`` as JSON.

        Args:
            value: Nested as deep as you like.
            path: Shown where a value cannot be written.

        Raises:
            InvalidRequest: If there is a value of a kind that cannot be written.
        """
        if value is None or type(value) in {bool, int, str}:
            return value
        write = _WRITERS.get(type(value)) or next(
            (write for kind, write in _FAMILIES.items() if isinstance(value, kind)), None
        )
        if write is None and dataclasses.is_dataclass(value) and not isinstance(value, type):
            write = Encoder._dataclass
        if write is not None:
            return write(self, value, path)
        raise InvalidRequest(
            f"{path} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be kept.",
            hint="Give it state_dict() and load_state_dict(), or keep numbers, strings, tensors, arrays, "
            "dataclasses, and lists, tuples and dictionaries of them.",
        )

    def _tensor(self, tensor: torch.Tensor, path: str) -> Any:
        if is_lazy(tensor):
            raise InvalidRequest(
                f"{path} has no shape yet: it belongs to a lazy module.",
                hint="model(batch)  # once, before the Checkpointer is made",
            )
        if type(tensor).__name__ == "DTensor" or hasattr(tensor, "placements"):
            raise InvalidRequest(
                f"{path} is sharded over the ranks (a DTensor); sharded state cannot be kept yet.",
                hint="Use DDP: model = wrap(model); or torch.distributed.checkpoint for this model.",
            )
        dense = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
        if not dense or tensor.device.type == "meta":
            kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else tensor.layout
            raise InvalidRequest(f"{path} is no plain dense tensor ({kind}, {tensor.device}).", hint=_KEEP_DENSE)
        if tensor.dtype not in DTYPE_NAMES:
            raise InvalidRequest(f"{path} has dtype {tensor.dtype}, which cannot be kept.", hint=_KEEP_DENSE)
        if self._inline:
            return {TAG: "tensor", "v": self._array(tensor.detach().cpu().numpy(), path)}
        seen_as = (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.is_conj(), tensor.is_neg())
        key = (tensor.device, tensor.data_ptr(), *seen_as)
        if tensor.numel() and key in self._seen:  # tied weights are written once
            return {TAG: "tensor", "ref": self._seen[key]}
        name = path
        while name in self.tensors:
            name += "'"
        self.tensors[name] = tensor.detach()
        self._seen[key] = name
        return {TAG: "tensor", "ref": name}

    def _array(self, array: np.ndarray, path: str) -> Any:
        if array.dtype.hasobject or array.dtype.names:
            raise InvalidRequest(f"{path} is an array of {array.dtype}, which cannot be kept.")
        if not self._inline and array.ndim and array.dtype.kind in "fiub" and array.dtype.isnative:
            try:
                tensor = torch.from_numpy(np.require(array, requirements=("C", "W")))
            except TypeError:
                pass  # a dtype that torch does not have
            else:
                return {TAG: "array", **{k: v for k, v in self._tensor(tensor, path).items() if k != TAG}}
        data = base64.b64encode(array.tobytes()).decode("ascii")
        return {TAG: "array", "dtype": array.dtype.str, "shape": list(array.shape), "data": data}

    def _pairs(self, mapping: Mapping[Any, Any], path: str) -> list[Any]:
        return [
            [self.encode(key, f"{path} key {key!r}"), self.encode(value, f"{path}.{key}")]
            for key, value in mapping.items()
        ]

    def _items(self, values: Any, path: str) -> list[Any]:
        return [self.encode(value, f"{path}.{index}") for index, value in enumerate(values)]

    def _dict(self, mapping: dict[Any, Any], path: str) -> Any:
        if all(type(key) is str for key in mapping) and TAG not in mapping:
            return {key: self.encode(value, f"{path}.{key}") for key, value in mapping.items()}
        return {TAG: "dict", "v": self._pairs(mapping, path)}

    def _ordered(self, mapping: OrderedDict[Any, Any], path: str) -> Any:
        encoded = {TAG: "ordered", "v": self._pairs(mapping, path)}
        metadata = getattr(mapping, "_metadata", None)  # a module's state names its versions here
        if metadata is not None:
            encoded["metadata"] = self.encode(metadata, f"{path} metadata")
        return encoded

    def _dataclass(self, value: Any, path: str) -> Any:
        names = [field.name for field in dataclasses.fields(value)]
        fields = {name: getattr(value, name) for name in names if hasattr(value, name)}
        return {TAG: "dataclass", "class": _class_name(type(value)), "v": self._pairs(fields, path)}

    def _enum(self, member: enum.Enum, path: str) -> Any:
        if member.name not in type(member).__members__:
            raise InvalidRequest(f"{path} is {member!r}, no single flag.", hint="keep its value: flags.value")
        return {TAG: "enum", "class": _class_name(type(member)), "v": member.name}

    def _object(self, wrapped: ObjectState, path: str) -> Any:
        return {TAG: "object", "v": self.encode(wrapped.state, path)}


_Writer = Callable[[Encoder, Any, str], Any]
_WRITERS: dict[type, _Writer] = {
    float: lambda _e, v, _p: v if math.isfinite(v) else {TAG: "float", "v": repr(v)},
    np.ndarray: Encoder._array,  # noqa: SLF001
    list: Encoder._items,  # noqa: SLF001 -- the class's own table
    tuple: lambda e, v, p: {TAG: "tuple", "v": e._items(v, p)},  # noqa: SLF001
    torch.Size: lambda _e, v, _p: {TAG: "size", "v": list(v)},
    set: lambda e, v, p: {TAG: "set", "v": e._items(v, p)},  # noqa: SLF001
    frozenset: lambda e, v, p: {TAG: "frozenset", "v": e._items(v, p)},  # noqa: SLF001
    dict: Encoder._dict,  # noqa: SLF001
    OrderedDict: Encoder._ordered,  # noqa: SLF001
    Counter: lambda e, v, p: {TAG: "counter", "v": e._pairs(v, p)},  # noqa: SLF001
    ObjectState: Encoder._object,  # noqa: SLF001
    bytes: lambda _e, v, _p: {TAG: "bytes", "v": base64.b64encode(v).decode("ascii")},
    complex: lambda _e, v, _p: {TAG: "complex", "v": [repr(v.real), repr(v.imag)]},
    torch.dtype: lambda _e, v, _p: {TAG: "dtype", "v": str(v).removeprefix("torch.")},
    torch.device: lambda _e, v, _p: {TAG: "device", "v": str(v)},
    timedelta: lambda _e, v, _p: {TAG: "timedelta", "v": [v.days, v.seconds, v.microseconds]},
    datetime: lambda _e, v, _p: {TAG: "datetime", "v": v.isoformat()},
}
_FAMILIES: dict[type, _Writer] = {  # with their subclasses
    torch.Tensor: Encoder._tensor,  # noqa: SLF001
    np.generic: lambda e, v, p: {TAG: "scalar", "v": e._array(np.asarray(v), p)},  # noqa: SLF001
    enum.Enum: Encoder._enum,  # noqa: SLF001
    pathlib.PurePath: lambda _e, v, _p: {TAG: "path", "v": str(v)},
}


def _class_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
