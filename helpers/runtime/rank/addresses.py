"""Tell by which addresses other machines may reach this one.

A machine's own name may resolve to ``127.0.1.1``, as Debian has it, to a network that the nodes do not share, or not at
all; and a default route may lead to a container's bridge. The kernel's route to another node of the job is right.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOPBACK = "127.0.0.1"

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_OF_ONE_LINK = "fe80:"  # means nothing without the name of an interface
_ELSEWHERE = ("10.255.255.255", "fd00::1")  # private; need not be there
_ANY_PORT = 9  # nothing is sent to it
_SCONTROL_S = 10


def own_addresses() -> list[str]:
    """Return this machine's addresses that others may reach, the likeliest first.

    The one on the route to another node of the job; those of the machine's name; the ones on the route out; then all
    others, IPv4 before IPv6. No loopback address is among them, nor one that is valid on a single link.
    """
    own = {platform.node(), os.environ.get("SLURMD_NODENAME")}
    others = [name for name in nodes_of_job() if name not in own][:1]
    found = [source_address(address) for address in resolve(others)]
    found += resolve([platform.node()])
    found += [source_address(address) for address in _ELSEWHERE]
    found += _of_interfaces()
    return [address for address in dict.fromkeys(found) if address and not is_loopback(address)]


def nodes_of_job() -> list[str]:
    """Return the names of the job's nodes, in their order; none outside a job of Slurm's."""
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    if not listed:
        return []
    command = ["scontrol", "show", "hostnames", listed]  # reads the words alone, and asks nobody
    with suppress(OSError, subprocess.TimeoutExpired):  # a container has no scontrol
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SCONTROL_S, check=False)
        return done.stdout.split()
    return []


def resolve(hosts: Iterable[str]) -> list[str]:
    """Return addresses, IPv4 before IPv6: torch tries IPv6 for minutes where it leads nowhere (pytorch #131691).

    Names that do not resolve are passed over. Loopback addresses come last: ``127.0.1.1`` leads elsewhere on every
    node; where all "nodes" are one machine it is the one that works.
    """
    names, found = list(hosts), []
    for family in _FAMILIES:
        for host in names:
            with suppress(OSError):
                found += [str(info[4][0]) for info in socket.getaddrinfo(host, None, family)]
    unique = [address for address in dict.fromkeys(found) if not address.startswith(_OF_ONE_LINK)]
    return sorted(unique, key=is_loopback)


def source_address(target: str) -> str | None:
    """Return this machine's address on the kernel's route to an IPv4 or IPv6 address; None if there is no route."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((target, _ANY_PORT))  # sends nothing; asks the kernel
        return str(probe.getsockname()[0])
    return None


def is_loopback(address: str) -> bool:
    """Say whether an address leads to the machine itself, whichever that is."""
    return address.startswith("127.") or address == "::1"


def _of_interfaces() -> list[str]:
    import psutil  # not needed by a job of one node

    states = psutil.net_if_stats()
    addresses = [
        (one.family, one.address)
        for name, listed in psutil.net_if_addrs().items()
        if name in states and states[name].isup
        for one in listed
    ]
    ordered = [address for wanted in _FAMILIES for family, address in addresses if family == wanted]
    return [address for address in ordered if not address.startswith(_OF_ONE_LINK)]
