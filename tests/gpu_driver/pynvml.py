"""A stand-in for the driver's library: it tells of the cards that a JSON file lists, named by ``STAND_IN_CARDS``.

Put this folder on ``PYTHONPATH``, before the installed ``nvidia-ml-py``. A card is
``{"uuid": …, "busy": percent, "used_mb": …, "processes": [[pid, memory_mb]], "slices": [card, …], "slowed": bits}``.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_MIB = 1024 * 1024


class NVMLError(Exception):
    """What the library raises."""


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801 -- the library's own names, here and below
    """There is no driver."""


class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801
    """The driver is installed, and drives nothing."""


class NVMLError_NotSupported(NVMLError):  # noqa: N801
    """This card cannot tell."""


class NVMLError_NotFound(NVMLError):  # noqa: N801
    """There is no such slice."""


class NVMLError_NoPermission(NVMLError):  # noqa: N801
    """Only root may ask."""


class NVMLError_InvalidArgument(NVMLError):  # noqa: N801
    """There is no such number."""


class NVMLError_FunctionNotFound(NVMLError):  # noqa: N801
    """The driver is too old."""


def _cards() -> list[dict[str, Any]]:
    cards: list[dict[str, Any]] = json.loads(Path(os.environ["STAND_IN_CARDS"]).read_text())
    return cards


def nvmlInit() -> None:  # noqa: N802
    if "STAND_IN_CARDS" not in os.environ:
        raise NVMLError_LibraryNotFound("NVML Shared Library Not Found")
    if _cards() == [{"broken": True}]:
        raise NVMLError("Driver/library version mismatch")


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return len(_cards())


def nvmlDeviceGetHandleByIndex(index: int) -> dict[str, Any]:  # noqa: N802
    return _cards()[index]


def nvmlDeviceGetHandleByUUID(uuid: str) -> dict[str, Any]:  # noqa: N802
    for card in _cards():
        if card["uuid"] == uuid:
            return card
    raise NVMLError_NotFound("Not Found")


def nvmlDeviceGetCurrentClocksThrottleReasons(card: dict[str, Any]) -> int:  # noqa: N802
    return int(card.get("slowed", 0))


def nvmlDeviceGetName(_card: dict[str, Any]) -> str:  # noqa: N802
    return "NVIDIA H200"


def nvmlDeviceGetUUID(card: dict[str, Any]) -> str:  # noqa: N802
    return str(card["uuid"])


def nvmlDeviceGetMaxMigDeviceCount(card: dict[str, Any]) -> int:  # noqa: N802
    return 7 if "slices" in card else 0


def nvmlDeviceGetMigMode(card: dict[str, Any]) -> list[int]:  # noqa: N802
    return [int("slices" in card)] * 2


def nvmlDeviceGetMigDeviceHandleByIndex(card: dict[str, Any], number: int) -> dict[str, Any]:  # noqa: N802
    if number >= len(card["slices"]):
        raise NVMLError_NotFound("Not Found")
    found: dict[str, Any] = card["slices"][number]
    return found


def nvmlDeviceGetMemoryInfo(card: dict[str, Any]) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(total=143771 * _MIB, used=card.get("used_mb", 0) * _MIB)


def nvmlDeviceGetUtilizationRates(card: dict[str, Any]) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(gpu=card.get("busy", 0))


def nvmlDeviceGetComputeRunningProcesses(card: dict[str, Any]) -> list[SimpleNamespace]:  # noqa: N802
    return [SimpleNamespace(pid=pid, usedGpuMemory=mb * _MIB) for pid, mb in card.get("processes", [])]


def nvmlDeviceGetGraphicsRunningProcesses(card: dict[str, Any]) -> list[SimpleNamespace]:  # noqa: N802
    return [SimpleNamespace(pid=pid, usedGpuMemory=mb * _MIB) for pid, mb in card.get("drawing", [])]
