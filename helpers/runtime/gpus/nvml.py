"""Ask this machine's NVIDIA driver what its GPUs are, who computes on them and what slows them (``nvidia-ml-py``).

A card that is cut into MIG slices counts as its slices: each is named, leased and shown by its own UUID.
Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MIB = 1024 * 1024
_SLOWED = {0x8: "a hardware slowdown", 0x20: "heat", 0x40: "heat (hardware)", 0x80: "a power brake"}
"""Of ``nvmlClocksEventReasons``. A power cap is left out: a card under full load lives at it, in a training, too."""

_UNSEEN_USE_MB = 2048  # more than a driver keeps for itself: somebody whose process is not shown, as in a container


@dataclass(frozen=True, kw_only=True)
class GpuProcess:
    """A process that computes on a GPU.

    Args:
        pid: Its process id, as the driver sees it.
        memory_mb: What it has on the GPU, in MiB; None where the driver does not tell.
    """

    pid: int
    memory_mb: int | None


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU of this machine, or one MIG slice.

    Args:
        uuid: What tells it from all others: ``GPU-…`` or ``MIG-…``; the name in ``CUDA_VISIBLE_DEVICES`` where there
            is no driver to ask.
        index: The driver's number of the card; of a slice, with its own number: ``"0:1"``.
        name: The driver's name of the card.
        is_slice: Whether it is a MIG slice.
        memory_mb: In all, in MiB; None where it is not known.
        used_mb: In use, in MiB; None where it is not known.
        busy_percent: Of the time, in the last moment; None where the driver does not tell, as for a slice.
        processes: That compute on it.
        drawing_mb: In use by programs that draw, in MiB: a desktop does not keep a GPU from computing.
    """

    uuid: str
    index: str
    name: str = ""
    is_slice: bool = False
    memory_mb: int | None = None
    used_mb: int | None = None
    busy_percent: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    drawing_mb: int = 0

    @property
    def is_used(self) -> bool:
        """Whether a program computes on it, or has so much memory that one must, though its process is not shown."""
        return bool(self.processes) or (self.used_mb or 0) - self.drawing_mb > _UNSEEN_USE_MB


def list_gpus() -> list[Gpu]:
    """Return the GPUs of this machine, each cut card as its slices; none where there is no NVIDIA driver.

    Raises:
        InvalidRequest: If the driver does not work, with its own words.
    """
    driver = _start()
    if driver is None:
        return []
    try:
        return [gpu for index in range(driver.nvmlDeviceGetCount()) for gpu in _read_card(driver, index)]
    except driver.NVMLError as error:
        raise _broken(error) from error


def read_slowdowns(uuid: str) -> list[str]:
    """Return why a card's clocks are lower than they could be at this moment; nothing where the driver does not tell.

    Args:
        uuid: Of the card, ``GPU-…``.
    """
    driver = _start()
    if driver is None:
        return []
    try:
        card = driver.nvmlDeviceGetHandleByUUID(uuid)
        reasons = driver.nvmlDeviceGetCurrentClocksThrottleReasons(card)
    except driver.NVMLError:
        return []
    return [words for bit, words in _SLOWED.items() if reasons & bit]


@functools.cache
def _start() -> Any:
    """Load the driver's library, once a process; None where there is none, or no GPU that it could drive."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return None
    except pynvml.NVMLError as error:
        raise _broken(error) from error
    return pynvml


def _broken(error: Exception) -> InvalidRequest:
    return InvalidRequest(f"The GPU driver of this machine does not work: {error}", hint="nvidia-smi")


def _read_card(driver: Any, index: int) -> Iterator[Gpu]:
    card = driver.nvmlDeviceGetHandleByIndex(index)
    slices = list(_slices(driver, card))
    name = _text(driver.nvmlDeviceGetName(card))
    if not slices:
        yield _read(driver, card, str(index), name, is_slice=False)
    for number, one in slices:
        yield _read(driver, one, f"{index}:{number}", name, is_slice=True)


def _slices(driver: Any, card: Any) -> Iterator[tuple[int, Any]]:
    count = _ask(driver, lambda: driver.nvmlDeviceGetMaxMigDeviceCount(card)) or 0
    mode = _ask(driver, lambda: driver.nvmlDeviceGetMigMode(card)[0]) if count else 0
    for number in range(count if mode else 0):
        found = _ask(driver, functools.partial(driver.nvmlDeviceGetMigDeviceHandleByIndex, card, number))
        if found is not None:
            yield number, found


def _read(driver: Any, handle: Any, index: str, name: str, *, is_slice: bool) -> Gpu:
    memory = _ask(driver, lambda: driver.nvmlDeviceGetMemoryInfo(handle))
    busy = None if is_slice else _ask(driver, lambda: driver.nvmlDeviceGetUtilizationRates(handle).gpu)
    computing = _ask(driver, lambda: driver.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    drawing = _ask(driver, lambda: driver.nvmlDeviceGetGraphicsRunningProcesses(handle)) or []
    return Gpu(
        uuid=_text(driver.nvmlDeviceGetUUID(handle)),
        index=index,
        name=name,
        is_slice=is_slice,
        memory_mb=None if memory is None else memory.total // _MIB,
        used_mb=None if memory is None else memory.used // _MIB,
        busy_percent=busy,
        processes=tuple(GpuProcess(pid=one.pid, memory_mb=_mb(one.usedGpuMemory)) for one in computing),
        drawing_mb=sum(_mb(one.usedGpuMemory) or 0 for one in drawing),
    )


def _ask(driver: Any, question: Callable[[], Any]) -> Any:
    """Return the answer; None where this GPU, this driver or this user gets none."""
    try:
        return question()
    except (driver.NVMLError_NotSupported, driver.NVMLError_NotFound, driver.NVMLError_NoPermission,
            driver.NVMLError_InvalidArgument, driver.NVMLError_FunctionNotFound):  # fmt: skip
        return None


def _mb(count: int | None) -> int | None:
    return None if count is None else count // _MIB


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
