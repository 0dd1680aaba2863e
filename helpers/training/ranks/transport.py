"""Say once, in rank 0's log, what the ranks talk over and how fast.

A job that was to use InfiniBand and uses Ethernet, or whose GPUs cannot reach each other directly, trains as it should,
only slowly. The measurement is short: it tells such a fault, and is no benchmark.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import torch
import torch.distributed as dist

from helpers.runtime.switch import read_switch

NETWORK_VARIABLE = "HELPERS_REPORT_NETWORK"  # "0": neither measure nor say

_MIB = 1 << 20
_PROBE_BYTES = _MIB // 4
_BYTES = 4 * _MIB
_ROUNDS = 3
_BUDGET_S = 0.15  # for all rounds; on a slower network the probe is all there is
_VIA = re.compile(r"Channel \d+(?:/\d+)? : .* via ([A-Za-z0-9_]+(?:/[A-Za-z_]+[A-Za-z0-9_]*)?)")
_NCCL_SETTINGS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"}

_said = False


class NcclLog:
    """What NCCL says while it connects the ranks; rank 0 alone listens, and only where the user does not.

    As a context it ends with no variable set and no file left, also where the ranks could not be connected.
    """

    def __init__(self, *, listen: bool) -> None:
        self._path: Path | None = None
        if not listen or _said or _is_off():
            return
        if any(os.environ.get(name) for name in (*_NCCL_SETTINGS, "NCCL_DEBUG_FILE")):
            return
        handle, name = tempfile.mkstemp(prefix="helpers-nccl-")
        os.close(handle)
        self._path = Path(name)
        os.environ.update({**_NCCL_SETTINGS, "NCCL_DEBUG_FILE": name})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._path is None:
            return
        for name in (*_NCCL_SETTINGS, "NCCL_DEBUG_FILE"):
            os.environ.pop(name, None)
        with suppress(OSError):
            self._path.unlink()  # NCCL may go on writing to it: a few lines for each new group

    def read(self) -> str:
        """Return what was said so far; empty where nobody listens."""
        return "" if self._path is None else self._path.read_text(encoding="utf-8", errors="replace")


def read_transports(log: str) -> list[str]:
    """Return what NCCL's channels go over, such as ``["P2P/CUMEM", "NET/IB"]``, in the order of their appearance.

    Args:
        log: With lines such as ``… NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM``.
    """
    return list(dict.fromkeys(_VIA.findall(log)))


def report_network(device: torch.device, *, nodes: int, interface: str, log: NcclLog) -> None:
    """Measure an all-reduce and let rank 0 say what came of it, once a process; every rank calls it.

    Args:
        device: Of this rank's tensors.
        nodes: Machines in all.
        interface: The network interface in use; empty where it is not known.
        log: What NCCL said; empty for gloo.
    """
    global _said  # noqa: PLW0603 -- said once a process
    if _said or _is_off():
        return
    _said = True
    size, seconds = measure_all_reduce(device)
    transports = read_transports(log.read())
    if dist.get_rank() != 0:
        return
    ranks = dist.get_world_size()
    backend = "NCCL" if dist.get_backend() == "nccl" else dist.get_backend()
    over = " and ".join(transports) or interface
    message = (
        f"helpers: {ranks} processes on {nodes} {'node' if nodes == 1 else 'nodes'}, {backend}"
        f"{f' over {over}' if over else ''}: all-reduce of {size / _MIB:g} MiB in {two_digits(seconds * 1e3)} ms, "
        f"{two_digits(bus_bandwidth(size, seconds, ranks))} GB/s."
    )
    print(message, file=sys.stderr, flush=True)


def two_digits(value: float) -> str:
    """Write a number with two significant digits, and not as a power of ten: ``180``, ``0.35``."""
    return f"{float(f'{value:.2g}'):g}"


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Return the GB/s that each rank's slowest link has carried: ``2 (n - 1) / n`` times the bytes, by the time.

    So defined in nccl-tests, ``doc/PERFORMANCE.md``: it can be compared with what the hardware promises.
    """
    return 2 * (ranks - 1) / ranks * size / seconds / 1e9


def measure_all_reduce(device: torch.device) -> tuple[int, float]:
    """Return the bytes of an all-reduce and the seconds that it took the slowest rank."""
    probe = torch.zeros(_PROBE_BYTES // 4, device=device)
    _time(probe)  # connects the ranks
    probe_s = _slowest(_time(probe), device)
    if probe_s * _ROUNDS * _BYTES / _PROBE_BYTES > _BUDGET_S:
        return _PROBE_BYTES, probe_s
    data = torch.zeros(_BYTES // 4, device=device)
    return _BYTES, _slowest(min(_time(data) for _ in range(_ROUNDS)), device)


def _time(data: torch.Tensor) -> float:
    begin = time.perf_counter()
    dist.all_reduce(data)
    if data.device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter() - begin


def _slowest(seconds: float, device: torch.device) -> float:
    longest = torch.tensor([seconds], device=device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return float(longest)


def _is_off() -> bool:
    return read_switch(os.environ, NETWORK_VARIABLE) is False
