"""Give the libraries that are not ours a place where the ranks meet: ``MASTER_ADDR`` and ``MASTER_PORT``.

torch's ``env://``, torchrun, accelerate, Lightning and ``jax.distributed`` want address and port *before* anybody
listens, so no port can be bound and then told, as ``helpers.training.distributed`` does. The batch script, which runs
on the node of rank 0, takes one that the kernel says is free, anew for each attempt; rank 0 then holds it: bound and
not listening it is given to nobody else, and who listens with ``SO_REUSEADDR``, as all of those do, may have it.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from helpers.runtime.rank.addresses import LOOPBACK, own_addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.runtime.run.description import Description

ADDRESS_VARIABLE, PORT_VARIABLE = "MASTER_ADDR", "MASTER_PORT"


def meeting_point(description: Description) -> dict[str, str]:
    """Return the variables of this attempt; none for a run of one process.

    Called on the node of rank 0.
    """
    if description.processes == 1:
        return {}
    address = LOOPBACK if description.nodes == 1 else own_address()
    with _bound(0) as probe:
        return {ADDRESS_VARIABLE: address, PORT_VARIABLE: str(probe.getsockname()[1])}


def hold_meeting_point(rank: int, environment: Mapping[str, str] = os.environ) -> None:
    """Keep others from getting the port before a library of rank 0 listens on it."""
    port = environment.get(PORT_VARIABLE, "")
    if rank == 0 and port.isdigit():
        with suppress(OSError):  # somebody was faster; the library that wants it will say so
            _bound(int(port)).detach()  # open until the process ends


def hold_free_port() -> int:
    """Return a free port that is held for this process until it ends."""
    bound = _bound(0)
    port = int(bound.getsockname()[1])
    bound.detach()  # open until the process ends
    return port


def own_address() -> str:
    """Return the address by which other nodes most likely reach this one; a name may lead nowhere there."""
    return next(iter(own_addresses()), LOOPBACK)


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("", port))
    except OSError:
        bound.close()
        raise
    return bound
