"""Where the parts of one cluster lie, and what they are called.

Every name that leaves the folder (nodes, cluster, cgroups) has a random part, so that clusters never meet.
"""

import random
import socket
import string
from dataclasses import dataclass
from pathlib import Path

NODES = 2
# The kernel's limit for a socket's path is 107 characters; the longest of ours is "/mariadb/socket".
LONGEST_FOLDER = 107 - len("/mariadb/socket")
# Below the ephemeral range (from 32768), so that no outgoing connection takes a port between choice and use.
PORTS = range(20_000, 32_000)


def new_instance() -> str:
    """Return a random name of letters only: a digit would be read as part of a node's number."""
    return "".join(random.choices(string.ascii_lowercase, k=5))  # noqa: S311  # a name, not a secret


def free_ports(count: int) -> tuple[int, ...]:
    """Return that many different TCP ports which nobody listens on at this moment."""
    found: list[int] = []
    for port in random.sample(PORTS, k=len(PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Names, ports and paths of one cluster.

    Args:
        folder: All state; made by the cluster and removed with it.
        instance: The random part of every name.
        ports: One for slurmctld, one for slurmdbd, then one a node.
    """

    folder: Path
    instance: str
    ports: tuple[int, ...]

    @property
    def cluster_name(self) -> str:
        """Slurm's own ``ClusterName``."""
        return f"test_{self.instance}"

    @property
    def controller(self) -> str:
        """The hostname of the controller's namespace."""
        return f"{self.instance}-ctl"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Node names, which are hostnames too; Slurm writes them as ``<instance>-gpu[1-2]``."""
        return tuple(f"{self.instance}-gpu{number}" for number in range(1, NODES + 1))

    @property
    def slurmctld_port(self) -> int:
        """Where the controller listens."""
        return self.ports[0]

    @property
    def slurmdbd_port(self) -> int:
        """Where the accounting daemon listens."""
        return self.ports[1]

    @property
    def slurmd_ports(self) -> tuple[int, ...]:
        """Where the nodes listen, in their order."""
        return self.ports[2:]

    @property
    def slurm_conf(self) -> Path:
        """What ``SLURM_CONF`` points at; its siblings are found beside it."""
        return self.folder / "etc" / "slurm.conf"

    @property
    def hosts(self) -> Path:
        """What the cluster's processes see as ``/etc/hosts``."""
        return self.folder / "etc" / "hosts"

    @property
    def logs(self) -> Path:
        """One file a daemon."""
        return self.folder / "logs"

    @property
    def pids(self) -> Path:
        """One file a daemon, with its process id and start time."""
        return self.folder / "pids"

    @property
    def devices(self) -> Path:
        """The fake GPUs."""
        return self.folder / "devices"

    @property
    def munge_socket(self) -> Path:
        """Where every part, and every client, signs its messages."""
        return self.folder / "munge" / "socket"

    @property
    def mariadb(self) -> Path:
        """The database's folder; closed to others, since its root user has no password."""
        return self.folder / "mariadb"
