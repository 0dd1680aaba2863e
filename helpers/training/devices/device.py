"""Choose the device of this process, and refuse to train on a CPU in silence."""

from __future__ import annotations

import os
import sys

import torch

from helpers.errors import HelpersError
from helpers.runtime.current import GPUS_VARIABLE, current_run
from helpers.runtime.switch import read_switch
from helpers.training.devices.wheel import check_wheel

ALLOW_CPU_VARIABLE = "HELPERS_ALLOW_CPU"  # "1": as if every call said allow_cpu=True

_said_cpu = False
_supported: set[torch.device] = set()  # that torch has code for; looked up once


class GpuNotSeen(HelpersError, RuntimeError):
    """GPUs were asked for, and this process does not see the one that is its own."""


def get_device(*, allow_cpu: bool = False) -> torch.device:
    """Return the device that this process trains on.

    One visible accelerator is taken whatever its number; of several, the one of the local rank. The number
    counts *visible* devices: ``CUDA_VISIBLE_DEVICES`` is neither read as numbers (it may hold UUIDs of MIG
    slices) nor written.

    Args:
        allow_cpu: Whether to go on with the CPU, said once on stderr, where a GPU was asked for and none is
            seen. ``HELPERS_ALLOW_CPU=1`` says the same for every call.

    Returns:
        The device with its index, such as ``cuda:1``; ``cpu`` where no GPU was asked for and none is seen.

    Raises:
        GpuNotSeen: If a GPU was asked for and none is seen, or fewer are seen than there are processes on
            this node.
        GpuNotSupported: If this build of torch has no code for the card.
    """
    asked = int(os.environ.get(GPUS_VARIABLE) or 0)
    seen = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    if seen == 0:
        if asked > 0:
            _refuse_or_say_cpu(asked, allowed=allow_cpu or read_switch(os.environ, ALLOW_CPU_VARIABLE) is True)
        return torch.device("cpu")
    if os.environ.get(GPUS_VARIABLE) == "0":
        return torch.device("cpu")  # the job said gpus=0: what it happens to see belongs to others
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:  # cannot be: one is available
        return torch.device("cpu")
    device = torch.device(accelerator.type, _choose_index(asked, seen))
    if device.type == "cuda" and device not in _supported:
        check_wheel(device)
        _supported.add(device)
    return device


def uses_cuda() -> bool:
    """Say whether this process may train on a CUDA device, without starting one."""
    return torch.cuda.is_available() and os.environ.get(GPUS_VARIABLE) != "0"


def _choose_index(asked: int, seen: int) -> int:
    local_rank = current_run().local_rank
    if seen == 1:
        return 0
    if local_rank >= seen:
        raise GpuNotSeen(
            f"Process {local_rank} of this node has no GPU of its own: {_asked_and_seen(asked, seen)}.",
            hint="Ask for one GPU per process: submit(..., gpus=N) starts N processes; or give processes=.",
        )
    return local_rank


def _refuse_or_say_cpu(asked: int, *, allowed: bool) -> None:
    global _said_cpu  # noqa: PLW0603 -- said once a process
    if not allowed:
        raise GpuNotSeen(
            f"A GPU was asked for and none is seen: {_asked_and_seen(asked, 0)}, {_torch_build()}.",
            hint="Look at `nvidia-smi` in the job and at the torch build; to train on the CPU on purpose: "
            "get_device(allow_cpu=True) or HELPERS_ALLOW_CPU=1.",
        )
    if not _said_cpu:
        _said_cpu = True
        message = f"helpers: training on the CPU, as allowed: {_asked_and_seen(asked, 0)}, {_torch_build()}."
        print(message, file=sys.stderr, flush=True)


def _asked_and_seen(asked: int, seen: int) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    shown = "not set" if visible is None else repr(visible)
    return f"{asked} asked for by the job, {seen} seen by this process, CUDA_VISIBLE_DEVICES is {shown}"


def _torch_build() -> str:
    cuda = torch.version.cuda
    return f"torch {torch.__version__} ({f'built for CUDA {cuda}' if cuda else 'built without CUDA'})"


def name_gpu(device: torch.device) -> str | None:
    """Return what tells this GPU from all others, also one MIG slice from the next; None for a device without such.

    A slice has the UUID of its card; the variable, as text, names the slice. CUDA shows a process one slice.
    """
    if device.type not in {"cuda", "xpu"}:
        return None
    uuid = str(getattr(torch.get_device_module(device).get_device_properties(device), "uuid", "")) or None
    entries = [entry.strip() for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    if uuid and len(entries) > (device.index or 0) and entries[device.index or 0].startswith("MIG-"):
        return f"{uuid} {entries[device.index or 0]}"
    return uuid
