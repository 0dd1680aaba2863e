"""Let the processes of one run find rank 0.

Rank 0 binds a port that the kernel says is free and *holds* it (a port that is chosen first and bound later
is a race with every other job of the node), then publishes address and port in a file that all ranks can
read. The file is keyed by attempt, job and step, so that one of an earlier start is never believed, and
carries a token that the store must answer with, so that neither is a foreign store on a reused port.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import HelpersError, InvalidRequest
from helpers.runtime.files import read_json, write_json
from helpers.runtime.rank.addresses import LOOPBACK, own_addresses, resolve
from helpers.training.ranks.stores import Store, TCPStore

if TYPE_CHECKING:
    from helpers.runtime.current import Run

_TOKEN_KEY = "helpers/token"  # noqa: S105 -- a name, no secret
_POLL_S = 0.05
_PROBE_S = 3.0  # a route that does not answer a plain TCP connection in this time is not tried with torch


class RendezvousFailed(HelpersError, RuntimeError):
    """The processes of one run did not find each other in time."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a store of rank 0 listens.

    Args:
        hosts: Names and addresses to try, the likeliest first.
        port: Bound by rank 0.
        token: What the right store answers under a known key.
    """

    hosts: tuple[str, ...]
    port: int
    token: str


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A client of rank 0's store.

    Args:
        store: The client; a blocking call on it blocks other threads' calls, so each thread has its own.
        host: The address that answered.
        address: Where further clients can connect.
    """

    store: Store
    host: str
    address: Address


def open_store(*, one_node: bool, timeout: timedelta) -> Connection:
    """Start the store of rank 0 on a port that the kernel chooses; on one node, on the loopback address."""
    hosts = (LOOPBACK,) if one_node else (socket.gethostname(), *own_addresses())
    # "localhost" for rank 0's own client: a host name that does not resolve would hang for minutes
    store = TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False, timeout=timeout)
    address = Address(hosts=hosts, port=store.port, token=secrets.token_hex(8))
    store.set(_TOKEN_KEY, address.token)
    return Connection(store=store, host=LOOPBACK, address=address)


def connect(address: Address, *, timeout: timedelta) -> Connection:
    """Return a new client of the store at ``address``.

    Raises:
        RendezvousFailed: If none of its hosts answers with the right token.
    """
    tried: list[str] = []
    for host in resolve(address.hosts):
        try:
            socket.create_connection((host, address.port), timeout=_PROBE_S).close()
            store = TCPStore(host, address.port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=10))
            if store.get(_TOKEN_KEY).decode() == address.token:
                store.set_timeout(timeout)
                return Connection(store=store, host=host, address=address)
            tried.append(f"{host}: another program's store")
        except (OSError, RuntimeError) as error:
            tried.append(f"{host}: {str(error).splitlines()[0]}")
    raise RendezvousFailed(
        f"Rank 0 listens on port {address.port} and cannot be reached from {socket.gethostname()}: "
        f"{'; '.join(tried) or 'none of its names resolves'}.",
        hint="Compute nodes must reach each other by TCP on ports of the kernel's choice; ask the cluster's "
        "administrators, or check the host names with `getent hosts NAME`.",
    )


def on_one_node(run: Run) -> bool:
    """Say whether all processes of the run are on this machine."""
    return run.ranks.local_world_size == run.world_size


def publish(path: Path, address: Address, run: Run) -> None:
    """Write the address where the other ranks look for it."""
    write_json(path, {**_key(run), **asdict(address)})


def find(path: Path, run: Run, *, timeout: timedelta) -> Address:
    """Wait until rank 0 of this very start has published its address.

    Raises:
        RendezvousFailed: If that takes longer than ``timeout``.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    while time.monotonic() < deadline:
        found = _read(path)
        if found is not None and all(found.get(name) == value for name, value in _key(run).items()):
            return Address(hosts=tuple(found["hosts"]), port=found["port"], token=found["token"])
        time.sleep(_POLL_S)
    raise RendezvousFailed(
        f"Rank 0 did not publish its address in {path} within {timeout.total_seconds():.0f} s.",
        hint="Look at rank 0's log; the folder must be on a file system that all nodes share.",
    )


def rendezvous_file(run: Run, entry: int) -> Path:
    """Return the file for the ``entry``-th meeting of one start, counted from 0.

    In a job of ours it lies in the attempt's folder. Under a plain ``srun`` it lies in the folder that the
    job was submitted from, named by job, step and Slurm's count of restarts; rank 0 removes it once all met.

    Raises:
        InvalidRequest: If there is neither.
    """
    if run.attempt_files is not None:
        path = run.attempt_files.rendezvous
        return path if entry == 0 else path.with_name(f"{path.stem}-{entry}{path.suffix}")
    environment = os.environ
    if "SLURM_JOB_ID" not in environment:
        raise InvalidRequest(
            f"This is process {run.rank} of {run.world_size}, and nothing says where they meet.",
            hint="Start them with submit(..., processes=N), torchrun or srun, or set MASTER_ADDR and MASTER_PORT.",
        )
    key = "-".join(environment.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))
    return Path(environment.get("SLURM_SUBMIT_DIR", ".")) / f".rendezvous-{key}-{entry}.json"


def _key(run: Run) -> dict[str, Any]:
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID")
    return {"attempt": run.attempt, **{name.lower(): os.environ.get(name) for name in names}}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = read_json(path)
    except (OSError, ValueError):  # a network file system may show a stale handle for a moment
        return None
    return value if isinstance(value, dict) else None
