"""Name the network interface that leads to the other ranks, for gloo and NCCL, while a process group lasts.

Left to itself gloo takes the one that the machine's own name resolves to, often ``127.0.1.1``, and NCCL the first that
is up, which may be a container's bridge or a network that the nodes do not share. The kernel's route to a peer tells
the right one. What the user has set is left alone, and what an administrator has set for NCCL in ``/etc/nccl.conf``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from helpers.runtime.rank.addresses import source_address
from helpers.training.ranks import peers

GLOO_VARIABLE = "GLOO_SOCKET_IFNAME"
NCCL_VARIABLE = "NCCL_SOCKET_IFNAME"

_NCCL_FILES = (Path("/etc/nccl.conf"), Path("~/.nccl.conf"))  # NCCL's documentation, "Environment Variables"


@dataclass(frozen=True, kw_only=True)
class Interface:
    """One end of a route.

    Args:
        name: As the kernel calls it, such as ``ib0``.
        address: This machine's own on it.
    """

    name: str
    address: str


def find_interface(target: str) -> Interface | None:
    """Return the interface that the kernel sends through to reach an IPv4 or IPv6 address; None if none does."""
    import psutil  # not needed by a single process

    own = source_address(target)
    for name, addresses in psutil.net_if_addrs().items():
        if own and any(address.address.partition("%")[0] == own for address in addresses):
            return Interface(name=name, address=own)
    return None


def use_interface(backend: str, target: str) -> str:
    """Have a backend use the interface that leads to ``target``, until the group ends; return its name, or ``""``.

    Args:
        backend: ``"gloo"`` or ``"nccl"``.
        target: An address of another rank.
    """
    variable = NCCL_VARIABLE if backend == "nccl" else GLOO_VARIABLE
    if os.environ.get(variable):
        return os.environ[variable]
    found = None if backend == "nccl" and _is_settled_for_nccl() else find_interface(target)
    if found is None:
        return ""
    # NCCL takes a name for the beginning of names, unless "=" stands before it
    os.environ[variable] = f"={found.name}" if backend == "nccl" else found.name
    peers.close_before_end(lambda _: os.environ.pop(variable, None))
    return found.name


def _is_settled_for_nccl() -> bool:
    for path in _NCCL_FILES:
        with suppress(OSError, RuntimeError):
            if NCCL_VARIABLE in path.expanduser().read_text(encoding="utf-8", errors="replace"):
                return True
    return False
