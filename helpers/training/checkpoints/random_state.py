"""Keep and restore the state of every random generator that a training step may draw from."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import numpy as np
import torch


def capture_random_state() -> dict[str, Any]:
    """Return the states of Python's, NumPy's, torch's and the current device's generators."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 -- the global one is what data sets draw from
        "torch": torch.get_rng_state(),
    }
    device = _accelerator()
    if device is not None:
        state["device"] = torch.get_device_module(device).get_rng_state()
        state["device_type"] = device.type
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Put the generators back; a device of another kind keeps what it has, and that is said."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002 -- see above
    torch.set_rng_state(state["torch"])
    device = _accelerator()
    if device is None and "device" not in state:
        return
    if device is not None and state.get("device_type") == device.type:
        torch.get_device_module(device).set_rng_state(state["device"])
        return
    now, then = device.type if device else "cpu", state.get("device_type", "cpu")
    message = f"helpers: saved on {then}, resumed on {now}: random numbers drawn on the device will differ."
    print(message, file=sys.stderr, flush=True)


def seed_afresh(*parts: object) -> None:
    """Seed all generators from ``parts``, for a rank that the saved run did not have."""
    seed = derive_seed(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 -- see above
    torch.manual_seed(seed)  # the devices' generators as well


def derive_seed(*parts: object) -> int:
    """Return a seed of 63 bits that depends on all ``parts`` and on nothing else."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _accelerator() -> torch.device | None:
    if not torch.accelerator.is_available():
        return None
    device = torch.accelerator.current_accelerator()
    # asking for the state would start the device: a process that trains on the CPU leaves it alone
    if device is not None and device.type == "cuda" and not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    return device
