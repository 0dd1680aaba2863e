"""Write and read tensors in the safetensors format, with a checksum over every byte.

The format is eight bytes of length, a JSON header and raw bytes (https://github.com/huggingface/safetensors),
so any tool reads the files. They are written here rather than by the library because its writer neither
checksums nor reports a full disk as an ``OSError``, and its reader gives tensors that are a mapping of the
file: they change, or the process dies, when the file does. Here what is returned has memory of its own, and
has been compared with its checksum in the same pass.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import xxhash

from helpers.errors import HelpersError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

_CHUNK = 1 << 20  # bytes hashed and written, or read and hashed: the second finds them in the processor's cache
_WRITEBACK = 1 << 24  # bytes after which the disk is asked to begin
_LENGTH_BYTES = 8
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
    "C128": "complex128",  # not in the format's own list: its library cannot read such a file
}  # fmt: skip
_DTYPES = {name: getattr(torch, dtype) for name, dtype in _NAMES.items() if hasattr(torch, dtype)}
DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
"""What the format calls each dtype that can be kept."""


class Broken(HelpersError, ValueError):
    """A file is not what was written: cut short, changed, or missing."""


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """What is known of a file that was written.

    Args:
        length: In bytes.
        xxh3_128: Checksum of all bytes, in hexadecimal.
    """

    length: int
    xxh3_128: str


def write_file(path: Path, parts: Iterable[Any]) -> FileRecord:
    """Write a new file and bring it to the disk.

    Args:
        path: Does not exist yet.
        parts: Buffers of bytes, in order.

    Raises:
        OSError: If the disk is full, for example.
    """
    length, begun, checksum = 0, 0, xxhash.xxh3_128()
    with path.open("xb", buffering=0) as file:
        for chunk in _chunks(parts):
            checksum.update(chunk)
            length += len(chunk)
            left = chunk
            while len(left):  # a write may take only a part
                left = left[file.write(left) :]
            if length - begun >= _WRITEBACK:
                _begin_writeback(file.fileno(), begun)
                begun = length
        os.fsync(file.fileno())
    return FileRecord(length=length, xxh3_128=checksum.hexdigest())


def _chunks(parts: Iterable[Any]) -> Iterator[memoryview]:
    for part in parts:
        view = memoryview(part).cast("B") if len(part) else memoryview(b"")
        for start in range(0, len(view), _CHUNK):
            yield view[start : start + _CHUNK]


def _begin_writeback(descriptor: int, start: int) -> None:
    """Let the kernel begin to write out what comes after ``start``: else the disk idles until ``fsync``."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # some file systems do not take advice
            os.posix_fadvise(descriptor, start, 0, os.POSIX_FADV_DONTNEED)


def read_file(path: Path, record: FileRecord) -> bytes:
    """Return the bytes of a small file.

    Raises:
        Broken: If they are not what was written.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Broken(f"{path} cannot be read: {error.strerror}.") from error
    _compare(path, record, FileRecord(length=len(data), xxh3_128=xxhash.xxh3_128_hexdigest(data)))
    return data


def check_file(path: Path, record: FileRecord) -> None:
    """Read a file through and compare it with its record.

    Raises:
        Broken: If it is not what was written.
    """
    checksum, length = xxhash.xxh3_128(), 0
    buffer = memoryview(bytearray(_CHUNK))
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                checksum.update(buffer[:count])
                length += count
    except OSError as error:
        raise Broken(f"{path} cannot be read: {error.strerror}.") from error
    _compare(path, record, FileRecord(length=length, xxh3_128=checksum.hexdigest()))


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> FileRecord:
    """Write tensors of any device, shape and supported dtype to a new file.

    Raises:
        OSError: If the disk is full, for example.
        ValueError: If a dtype has no name in the format.
    """
    # the widest first, so that each starts at a multiple of its own width
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {}
    offset = 0
    for name in order:
        tensor = tensors[name]
        if tensor.dtype not in DTYPE_NAMES:
            raise ValueError(f"{name} has dtype {tensor.dtype}, which cannot be kept.")
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    return write_file(path, _parts(header, (tensors[name] for name in order)))


def read_tensors(path: Path, record: FileRecord, *, wanted: Collection[str] | None = None) -> dict[str, torch.Tensor]:
    """Return tensors on the CPU, each with memory of its own, after the *whole* file was compared.

    Args:
        path: A file of :func:`write_tensors`.
        record: What was written.
        wanted: The names to return; None for all.

    Raises:
        Broken: If the file is not what was written.
    """
    found: dict[str, torch.Tensor] = {}
    try:
        if path.stat().st_size != record.length:
            raise Broken(f"{path} has {path.stat().st_size} bytes, and {record.length} were written.")
        checksum = xxhash.xxh3_128()
        with path.open("rb", buffering=0) as file:
            for name, dtype, shape in _read_header(file, checksum, record.length):
                tensor = torch.empty(shape, dtype=dtype)
                _read_into(file, _bytes_of(tensor), checksum)
                if wanted is None or name in wanted:
                    found[name] = tensor
        read = FileRecord(length=record.length, xxh3_128=checksum.hexdigest())
    except OSError as error:
        raise Broken(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, EOFError, RuntimeError) as error:
        raise Broken(f"{path} is damaged: {error}.") from error
    _compare(path, record, read)
    return found


def _parts(header: dict[str, Any], tensors: Iterable[torch.Tensor]) -> Iterator[Any]:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    yield len(text).to_bytes(_LENGTH_BYTES, "little")
    yield text
    for tensor in tensors:  # one at a time: no second copy of the whole state
        yield _bytes_of(tensor.cpu().contiguous())


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous tensor on the CPU, as bytes."""
    flat = tensor.reshape(-1)
    if flat.numel() == 0:
        return memoryview(b"")
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj()).reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]


def _read_header(file: Any, checksum: xxhash.xxh3_128, length: int) -> list[tuple[str, torch.dtype, list[int]]]:
    """Return names, dtypes and shapes in the order of the bytes.

    The header has not been compared with its checksum yet, so nothing in it is believed that would make us
    ask for more memory than the file has.
    """
    size_bytes = memoryview(bytearray(_LENGTH_BYTES))
    _read_into(file, size_bytes, checksum)
    size = int.from_bytes(size_bytes, "little")
    if size > length - _LENGTH_BYTES:
        raise ValueError("its header is longer than the file")
    text = memoryview(bytearray(size))
    _read_into(file, text, checksum)
    entries: list[tuple[str, torch.dtype, list[int]]] = []
    position = 0
    for name, entry in json.loads(bytes(text)).items():
        dtype, shape, (start, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if start != position or end - start != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"the place of {name} is wrong")
        position = end
        entries.append((name, dtype, shape))
    if position != length - _LENGTH_BYTES - size:
        raise ValueError("its header does not describe all its bytes")
    return entries


def _read_into(file: Any, target: memoryview, checksum: xxhash.xxh3_128) -> None:
    for start in range(0, len(target), _CHUNK):
        chunk = target[start : start + _CHUNK]
        filled = 0
        while filled < len(chunk):
            count = file.readinto(chunk[filled:])
            if not count:
                raise EOFError("it ends too early")
            filled += count
        checksum.update(chunk)


def _compare(path: Path, written: FileRecord, found: FileRecord) -> None:
    if found.length != written.length:
        raise Broken(f"{path} has {found.length} bytes, and {written.length} were written.")
    if found.xxh3_128 != written.xxh3_128:
        raise Broken(f"{path} is damaged: its checksum is {found.xxh3_128}, not {written.xxh3_128}.")
