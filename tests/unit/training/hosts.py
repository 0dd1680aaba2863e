"""Two machines made of one: network namespaces with an address, a hostname and a hosts file each.

Only root can make them, and only where the kernel lets it; nothing outside them changes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.daemons import ENTER_NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINK = "fast0"
"""The interface by which the two reach each other."""

_BECOME = """hostname "$1"
for name in hosts resolv.conf; do mount --bind "$2/$name" "/etc/$name"; done
shift 2
exec "$@" """
_NEEDED = ("ip", "nsenter", "unshare")
_BRIDGE = "docker0"
_BRIDGE_ADDRESS = "172.31.255.1/24"  # one and the same on every machine, as a container engine's is


@dataclass(frozen=True, kw_only=True)
class Host:
    """One of the two.

    Args:
        name: Its hostname.
        namespace: Its network namespace, as ``ip netns`` calls it.
        address: Its own on ``LINK``.
        files: The folder with what it sees as ``/etc/hosts`` and ``/etc/resolv.conf``.
    """

    name: str
    namespace: str
    address: str
    files: Path

    def knows(self, **names: str) -> None:
        """Change its hosts file: these names, each with its address, beside ``localhost``."""
        lines = [f"{address} {name}" for name, address in {"localhost": "127.0.0.1", **names}.items()]
        (self.files / "hosts").write_text("\n".join(lines) + "\n")

    def command(self, *words: str) -> list[str]:
        """Return the words that run a command there."""
        inside = [*ENTER_NAMESPACES, _BECOME, "sh", self.name, str(self.files), *words]
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *inside]


def why_unavailable() -> str | None:
    """Return why no namespaces can be made here; ``None`` where they can."""
    if missing := [name for name in _NEEDED if shutil.which(name) is None]:
        return f"Two hosts need {', '.join(missing)}, not found here."
    if os.geteuid() != 0:
        return "Two hosts need root, for network namespaces."
    name = f"probe-{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"Network namespaces cannot be made here: {made.stderr.strip()}"
    _ip("netns", "delete", name)
    return None


@contextlib.contextmanager
def two_hosts(folder: Path, addresses: tuple[str, str]) -> Iterator[tuple[Host, Host]]:
    """Give two hosts that one link joins, each with a bridge that leads nowhere and takes the default route.

    Neither knows the other's name; its own is ``127.0.1.1``, as Debian has it.

    Args:
        folder: For the files of theirs.
        addresses: Theirs, with the length of the prefix.
    """
    mark = secrets.token_hex(3)
    hosts = []
    with contextlib.ExitStack() as made:
        for number, address in enumerate(addresses):
            name, namespace = f"node{number}", f"helpers-{mark}-{number}"
            files = folder / name
            files.mkdir()
            (files / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # where none listens: it answers at once
            host = Host(name=name, namespace=namespace, address=address.partition("/")[0], files=files)
            host.knows(**{name: "127.0.1.1"})
            _ip("netns", "add", namespace)
            made.callback(_ip, "netns", "delete", namespace)  # its interfaces go with it
            hosts.append(host)
        one, other = hosts
        for host in hosts:
            _ip("-n", host.namespace, "link", "set", "lo", "up")
            _ip("-n", host.namespace, "link", "add", _BRIDGE, "type", "bridge")
        ends = ["type", "veth", "peer", "name", LINK, "netns", other.namespace]
        _ip("-n", one.namespace, "link", "add", LINK, *ends)
        for host, address in zip(hosts, addresses, strict=True):
            _ip("-n", host.namespace, "address", "add", address, "dev", LINK, *(["nodad"] if ":" in address else []))
            _ip("-n", host.namespace, "link", "set", LINK, "up")
            _ip("-n", host.namespace, "link", "set", _BRIDGE, "up")
            if ":" not in address:
                _ip("-n", host.namespace, "address", "add", _BRIDGE_ADDRESS, "dev", _BRIDGE)
                _ip("-n", host.namespace, "route", "add", "default", "via", "172.31.255.2")
        yield one, other


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
