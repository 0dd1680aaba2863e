"""Values that plain JSON would change come back as they were."""

import dataclasses
import enum
import json
import math
import pathlib
import sys
import types
import warnings
from collections import Counter, OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import torch

from helpers.errors import InvalidRequest
from helpers.training.checkpoints.decoding import Decoder, NotReadable, references
from helpers.training.checkpoints.encoding import Encoder, ObjectState


class Colour(enum.Enum):
    RED = "red"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    betas: tuple[float, float]

    def __post_init__(self) -> None:
        if self.width < 0:
            raise RuntimeError("code ran while loading")


def quantized() -> torch.Tensor:
    """A tensor of small integers that stand for other numbers."""
    with warnings.catch_warnings(action="ignore"):
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


def nested() -> torch.Tensor:
    """A tensor of rows that differ in length."""
    with warnings.catch_warnings(action="ignore"):
        return torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])


def _there_and_back(value: Any, *, inline: bool = False) -> Any:
    encoder = Encoder(inline=inline)
    text = json.dumps(encoder.encode(value), allow_nan=False)
    return Decoder(encoder.tensors).decode(json.loads(text))


def encoded_tensors(value: Any) -> dict[str, torch.Tensor]:
    """Return the tensors that a value leaves to the file."""
    encoder = Encoder()
    encoder.encode(value)
    return encoder.tensors


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 -- NaN


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2**80, -0.0, 0.1, math.inf, -math.inf, math.nan, "text ✓", b"\x00\xff", 1 + 2j,
        [1, (2, 3), []], (), {"a": (1,)}, {1: "int", "1": "text", (2, 3): "tuple", None: 0, 1.5: 1},
        {"~": "a key like our tag"}, {1, 2}, frozenset({"a"}), OrderedDict([("b", 1), ("a", 2)]), Counter({3: 2}),
        torch.float16, torch.bfloat16, torch.device("cuda", 1), torch.Size([2, 3]),
        np.float32(0.1), np.int64(7), np.bool_(True), np.array(3.0), np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([], dtype=np.float64), np.array([True, False]), np.array(["ab", "c"]), np.array([1 + 1j]),
        np.arange(3, dtype=">i4"), np.array(["2024-01-01"], dtype="datetime64[D]"),
        torch.tensor(3), torch.zeros(0, 4), torch.arange(6).reshape(2, 3).T, torch.tensor([True]),
        Colour.RED, Config(3, (0.9, 0.99)), pathlib.Path("/a/b"), timedelta(days=1, microseconds=3),
        datetime(2024, 1, 2, 3, tzinfo=UTC),
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_comes_back_as_it_was(value: Any, inline: bool) -> None:
    """An optimizer whose integer keys became text loses its state without a word."""
    assert _same(_there_and_back(value, inline=inline), value)


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.complex64, torch.float8_e4m3fn],
)
def test_tensors_leave_a_reference_and_keep_their_dtype(dtype: torch.dtype) -> None:
    """They go to a file of their own."""
    tensor = torch.arange(4).to(dtype)
    encoder = Encoder()
    encoded = encoder.encode({"x": [tensor]})
    assert references(encoded) == {"state.x.0"}
    assert encoder.tensors["state.x.0"].dtype == dtype


def test_tied_tensors_are_written_once() -> None:
    """A language model's embedding and head share their weight."""
    weight = torch.ones(3)
    encoder = Encoder()
    encoder.encode({"embedding": weight, "head": weight, "part": weight[:2]})
    assert len(encoder.tensors) == 2


def test_a_conjugate_is_not_taken_for_what_it_shares_its_memory_with() -> None:
    """Both have one address, one shape and one dtype; torch notes that one of them is a conjugate."""
    value = torch.tensor([1 + 2j])
    assert len(encoded_tensors({"a": value, "b": value.conj()})) == 2
    assert len(encoded_tensors({"a": value.imag, "b": value.conj().imag})) == 2


def test_an_array_that_must_not_be_written_to_is_kept_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    """As one of a memory map is; torch warns of each."""
    array = np.arange(3.0)
    array.flags.writeable = False
    assert _same(_there_and_back(array), array)
    assert not recwarn.list


def test_a_class_that_no_module_has_is_found_while_it_lives() -> None:
    """Of a script, whose code comes by value into a job, where ``__main__`` is the runner's; or of a function."""

    @dataclasses.dataclass
    class Best:
        value: float

    class Mode(enum.Enum):
        FAST = 1

    made = dataclasses.make_dataclass("OfTheScript", ["value"])
    made.__module__ = "__main__"
    assert _same(_there_and_back([Best(0.5), Mode.FAST, made(3)]), [Best(0.5), Mode.FAST, made(3)])


def test_a_modules_versions_survive() -> None:
    """``load_state_dict`` treats a state without them as one of an old torch."""
    state = torch.nn.BatchNorm1d(2).state_dict()
    assert _there_and_back(state)._metadata == state._metadata


def test_an_objects_state_is_told_from_a_dictionary() -> None:
    """Only that says whether to load or to replace."""
    assert _there_and_back({"a": ObjectState({"b": 1})}) == {"a": ObjectState({"b": 1})}


def test_reading_neither_calls_a_class_nor_imports_a_module() -> None:
    """A file that names code must not run it."""
    encoded = Encoder().encode(Config(3, (1.0, 1.0)))
    encoded["v"][0][1] = -1  # __post_init__ would raise
    assert Decoder({}).decode(encoded).width == -1
    encoded["class"] = "antigravity:Config"
    with pytest.raises(NotReadable, match=r"antigravity\.Config of a saved value is not known here"):
        Decoder({}).decode(encoded)
    assert "antigravity" not in sys.modules
    encoded["class"] = "subprocess:Popen"
    with pytest.raises(NotReadable, match="saved as a dataclass and is none"):
        Decoder({}).decode(encoded)


def test_an_unknown_tag_is_an_error() -> None:
    """A later version's kind of value must not turn into a dictionary."""
    with pytest.raises(NotReadable, match="unknown tag 'matrix'"):
        Decoder({}).decode({"~": "matrix"})


@pytest.mark.parametrize(
    "value",
    [
        object(), types.SimpleNamespace(), lambda: 1, np.array([object()]), torch.eye(2).to_sparse(),
        torch.zeros(1, dtype=torch.float8_e5m2fnuz), torch.empty(1, device="meta"), Access.READ | Access.WRITE,
        torch.nn.LazyLinear(1).weight, quantized(), nested(),
    ],
    ids=[
        "object", "namespace", "function", "object array", "sparse", "dtype", "meta", "flags", "lazy", "quantized",
        "nested",
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_named(value: Any) -> None:
    """The path says which of fifty entries it is."""
    with pytest.raises(InvalidRequest, match=r"state\.config\.1 (is|has) "):
        Encoder().encode({"config": [0, value]})
