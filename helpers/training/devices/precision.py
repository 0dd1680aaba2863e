"""Compute in the number format that the device is good at.

bf16 where the device has it, fp16 with a scaler where it does not, fp32 on a CPU. Weights stay in fp32: what is said
here holds for the operations of a forward pass, as torch's ``autocast`` chooses them.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, get_args

import torch

from helpers.errors import InvalidRequest
from helpers.training.devices.device import get_device

PRECISION_VARIABLE = "HELPERS_PRECISION"  # what the setting says; an argument counts more

Precision = Literal["bf16", "fp16", "fp32"]

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_FP16_SINCE = (5, 3)  # the first CUDA capability with fp16 arithmetic (CUDA C++ Programming Guide, "Arithmetic")


def precision(asked: str | None = None) -> Precision:
    """Return the number format of this process's device: ``"bf16"``, ``"fp16"`` or ``"fp32"``.

    Args:
        asked: One of these, which is then returned; ``"auto"`` to choose by the device; None for what the setting
            ``precision`` (or ``HELPERS_PRECISION``) says, ``"auto"`` without one.

    Returns:
        By the device: bf16 where its hardware has it, else fp16 where CUDA has it, else fp32; fp32 on a CPU and on
        Apple's GPUs.

    Raises:
        InvalidRequest: If there is no such format, or the device's hardware does not have the one that was asked for.
    """
    wanted = asked if asked is not None else os.environ.get(PRECISION_VARIABLE) or "auto"
    if wanted not in {"auto", *get_args(Precision)}:
        said = "precision" if asked is not None else PRECISION_VARIABLE
        raise InvalidRequest(f"{said} is auto, bf16, fp16 or fp32; got {wanted!r}.", hint=f'{said}="bf16"')
    device = get_device()
    if wanted == "auto":
        return _by_capability(device)
    if wanted == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(device)
        raise InvalidRequest(
            f"{name} computes no bf16, which was asked for.",
            hint='precision="fp16", with make_scaler(), or precision="auto"',
        )
    return "bf16" if wanted == "bf16" else "fp16" if wanted == "fp16" else "fp32"


def autocast(asked: str | None = None) -> AbstractContextManager[object]:
    """Return a context for the forward pass and the loss, in the format that :func:`precision` tells.

    Args:
        asked: As in :func:`precision`.

    Returns:
        ``torch.autocast`` for the device; a context that does nothing for fp32.
    """
    chosen = precision(asked)
    return nullcontext() if chosen == "fp32" else torch.autocast(get_device().type, dtype=_DTYPES[chosen])


def make_scaler(asked: str | None = None) -> torch.amp.GradScaler:
    """Return the scaler of losses that fp16 needs: its gradients would vanish without.

    Put it into the state of a ``Checkpointer``: its scale is part of the training.

    Args:
        asked: As in :func:`precision`.

    Returns:
        A ``GradScaler`` that does nothing for bf16 and fp32; ``scale``, ``step`` and ``update`` can stay in the loop.
    """
    return torch.amp.GradScaler(get_device().type, enabled=precision(asked) == "fp16")


def _by_capability(device: torch.device) -> Precision:
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16"
        return "fp16" if torch.cuda.get_device_capability(device) >= _FP16_SINCE else "fp32"
    if device.type == "xpu" and torch.xpu.is_bf16_supported():
        return "bf16"
    return "fp32"
