"""Read back what :mod:`helpers.training.checkpoints.encoding` wrote, and run nothing while doing so."""

from __future__ import annotations

import base64
import dataclasses
import enum
import pathlib
import sys
from collections import Counter, OrderedDict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from helpers.errors import HelpersError
from helpers.training.checkpoints.encoding import TAG, ObjectState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class NotReadable(HelpersError, ValueError):
    """A saved value cannot be rebuilt in this program."""


class Decoder:
    """Turn JSON of an :class:`Encoder` back into values.

    Args:
        tensors: What the references lead to, on the CPU.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = tensors

    def decode(self, value: Any) -> Any:
        """Return the value that was encoded.

        Raises:
            NotReadable: If a class has not been imported, or the tag is not known.
        """
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: self.decode(item) for key, item in value.items()}
        read = _READERS.get(value[TAG])
        if read is None:
            raise NotReadable(f"A saved value has the unknown tag {value[TAG]!r}.", hint="Upgrade the library.")
        return read(self, value)

    def pairs(self, value: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Return the keys and values of an encoded mapping."""
        return [(self.decode(key), self.decode(item)) for key, item in value["v"]]

    def items(self, value: dict[str, Any]) -> list[Any]:
        """Return the items of an encoded sequence."""
        return [self.decode(item) for item in value["v"]]

    def tensor(self, value: dict[str, Any]) -> torch.Tensor:
        """Return a tensor, on the CPU."""
        if "ref" in value:
            return self._tensors[value["ref"]]
        return torch.from_numpy(self.array(value["v"]))

    def array(self, value: dict[str, Any]) -> Any:
        """Return an array of its own memory."""
        if "ref" in value:
            return self._tensors[value["ref"]].numpy()
        data = base64.b64decode(value["data"])
        return np.frombuffer(data, dtype=np.dtype(value["dtype"])).reshape(value["shape"]).copy()

    def ordered(self, value: dict[str, Any]) -> OrderedDict[Any, Any]:
        """Return a module's state, with its versions."""
        mapping = OrderedDict(self.pairs(value))
        if "metadata" in value:
            mapping._metadata = self.decode(value["metadata"])  # type: ignore[attr-defined] # noqa: SLF001
        return mapping

    def dataclass(self, value: dict[str, Any]) -> Any:
        """Return an instance of a class that is known already, without calling it."""
        cls = _find_class(value["class"])
        if not dataclasses.is_dataclass(cls):
            raise NotReadable(f"{value['class']} was saved as a dataclass and is none now.")
        instance = object.__new__(cls)
        names = {field.name for field in dataclasses.fields(cls)}
        for name, item in self.pairs(value):
            if name in names:
                object.__setattr__(instance, name, item)
        return instance

    def enum(self, value: dict[str, Any]) -> Any:
        """Return a member of an enumeration that is known already."""
        cls = _find_class(value["class"])
        if not issubclass(cls, enum.Enum):
            raise NotReadable(f"{value['class']} was saved as an enumeration and is none now.")
        return cls[value["v"]]


_READERS: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {
    "float": lambda _d, v: float(v["v"]),
    "tensor": Decoder.tensor,
    "array": Decoder.array,
    "scalar": lambda d, v: d.array(v["v"])[()],
    "tuple": lambda d, v: tuple(d.items(v)),
    "size": lambda _d, v: torch.Size(v["v"]),
    "set": lambda d, v: set(d.items(v)),
    "frozenset": lambda d, v: frozenset(d.items(v)),
    "dict": lambda d, v: dict(d.pairs(v)),
    "ordered": Decoder.ordered,
    "counter": lambda d, v: Counter(dict(d.pairs(v))),
    "object": lambda d, v: ObjectState(d.decode(v["v"])),
    "bytes": lambda _d, v: base64.b64decode(v["v"]),
    "complex": lambda _d, v: complex(float(v["v"][0]), float(v["v"][1])),
    "dtype": lambda _d, v: _find_dtype(v["v"]),
    "device": lambda _d, v: torch.device(v["v"]),
    "timedelta": lambda _d, v: timedelta(*v["v"]),
    "datetime": lambda _d, v: datetime.fromisoformat(v["v"]),
    "path": lambda _d, v: pathlib.Path(v["v"]),
    "enum": Decoder.enum,
    "dataclass": Decoder.dataclass,
}


def references(value: Any) -> set[str]:
    """Return the names of the tensors that an encoded value needs."""
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    own = {value["ref"]} if TAG in value and isinstance(value.get("ref"), str) else set()
    return own.union(*map(references, value.values()))


def _find_class(name: str) -> type:
    module_name, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        found = _find_living(module_name, qualname)
    if found is None:
        in_module = module_name != "__main__" and "<locals>" not in qualname
        raise NotReadable(
            f"The class {name.replace(':', '.')} of a saved value is not known here.",
            hint=f"import {module_name}  # before loading; nothing is imported because a file says so"
            if in_module
            else "define it in a module, and import that before loading",
        )
    return cast("type", found)


def _find_living(module: str, qualname: str) -> type | None:
    """Return a class that no module has: of a script or a notebook, whose code came by value, or of a function.

    Where the same code has made several, the newest.
    """
    bases: list[type] = [object]
    seen: set[int] = set()  # by identity: a class need not be hashable
    newest: type | None = None
    while bases:
        below: list[type] = type.__subclasses__(bases.pop())
        for cls in below:
            if id(cls) in seen:
                continue
            seen.add(id(cls))
            bases.append(cls)
            if (cls.__module__, cls.__qualname__) == (module, qualname):
                newest = cls
    return newest


def _find_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise NotReadable(f"This torch has no dtype {name!r}.")
    return dtype
