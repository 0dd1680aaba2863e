"""The tensor file: any tool reads it, and no byte of it changes unnoticed."""

import os
import random
from pathlib import Path

import pytest
import safetensors.torch
import torch

from helpers.training.checkpoints.tensor_file import Broken, FileRecord, read_tensors, write_file, write_tensors


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "weight": torch.randn(7, 5),
        "half": torch.randn(3).to(torch.bfloat16),
        "count": torch.tensor(3),
        "empty": torch.zeros(0, 2),
        "transposed": torch.arange(6).reshape(2, 3).T,
        "mask": torch.tensor([True, False, True]),
        "complex": torch.randn(2, dtype=torch.complex64),
    }


def test_the_format_is_the_librarys(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Other tools read the weights without us."""
    write_tensors(tmp_path / "a", tensors)
    read = safetensors.torch.load_file(tmp_path / "a")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)
    assert all(read[name].dtype == tensors[name].dtype for name in tensors)


def test_what_is_read_is_what_was_written(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Bit for bit, in memory of its own."""
    record = write_tensors(tmp_path / "a", tensors)
    read = read_tensors(tmp_path / "a", record)
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)
    os.truncate(tmp_path / "a", 0)
    assert torch.equal(read["weight"], tensors["weight"])


def test_only_what_is_wanted_is_returned(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """An evaluation takes the model and leaves the optimizer."""
    record = write_tensors(tmp_path / "a", tensors)
    assert read_tensors(tmp_path / "a", record, wanted={"mask"}).keys() == {"mask"}


def test_every_single_bit_counts(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """torch.load, safetensors and DCP loaded 100 of 100 flipped files without a word."""
    path = tmp_path / "a"
    record = write_tensors(path, tensors)
    good = path.read_bytes()
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        with pytest.raises(Broken):
            read_tensors(path, record, wanted=())


def test_a_file_cut_short_or_lengthened_is_broken(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """A crash leaves such files."""
    path = tmp_path / "a"
    record = write_tensors(path, tensors)
    good = path.read_bytes()
    for bad in (b"", good[:-1], good[: len(good) // 2], good + b"\0"):
        path.write_bytes(bad)
        with pytest.raises(Broken, match="bytes, and"):
            read_tensors(path, record)


def test_a_damaged_header_asks_for_no_memory(tmp_path: Path) -> None:
    """The header is read before its checksum is known."""
    header = b'{"a":{"dtype":"F64","shape":[9999999999999],"data_offsets":[0,79999999999992]}}'
    record = write_file(tmp_path / "a", [len(header).to_bytes(8, "little"), header])
    with pytest.raises(Broken, match="does not describe all its bytes"):
        read_tensors(tmp_path / "a", record)


def test_large_parts_are_hashed_as_one(tmp_path: Path) -> None:
    """Chunks are our own business."""
    data = random.Random(1).randbytes((1 << 24) + 5)  # noqa: S311 -- any bytes do
    record = write_file(tmp_path / "a", [data[:7], b"", data[7:]])
    assert record == write_file(tmp_path / "b", [data])
    assert record == FileRecord(length=len(data), xxh3_128=record.xxh3_128)
