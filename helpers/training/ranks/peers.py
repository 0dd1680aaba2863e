"""Let the processes of one run tell each other small things without a collective.

A collective must be called by all ranks in the same order; what is told here can be asked for at any time,
from any thread. Values go through a key-value store that rank 0 hosts; each client of it is a connection of
its own, since a blocking call on one holds up the other threads that share it. One process alone uses a
store in its own memory, so that the same code serves both.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist

from helpers.errors import HelpersError, InvalidRequest
from helpers.runtime.current import current_run
from helpers.training.ranks import rendezvous
from helpers.training.ranks.stores import HashStore, PrefixStore, Store

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT = timedelta(minutes=5)  # of one answer of the store itself, not of a peer
_names = itertools.count()
_address: rendezvous.Address | None = None
_hosted: list[rendezvous.Connection] = []  # a store ends with its last reference
_closers: list[Callable[[float | None], object]] = []


class PeersLost(HelpersError, RuntimeError):
    """Another process of the run did not answer in time, or is gone."""


@dataclass(frozen=True, kw_only=True)
class Peers:
    """The processes of one run, as seen by one of them.

    Args:
        rank: This process.
        world_size: All of them.
        store: What they share; one client, to be used by one thread.
        name: Prefix of all keys, the same in all ranks.
        address: Where another thread's client connects; None for one process alone.
    """

    rank: int
    world_size: int
    store: Store
    name: str
    address: rendezvous.Address | None

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def for_another_thread(self) -> Peers:
        """Return the same peers through a connection of its own."""
        store = self.store if self.address is None else _client(self.address, self.name)
        return replace(self, store=store)

    def tell(self, key: str, value: str) -> None:
        """Make ``value`` known under ``key``.

        Raises:
            PeersLost: If rank 0, which hosts the store, is gone.
        """
        try:
            self.store.set(key, value)
        except RuntimeError as error:
            raise PeersLost(f"Rank 0 is gone: {_first_line(error)}.") from error

    def knows(self, *keys: str) -> bool:
        """Say whether all ``keys`` have been told."""
        try:
            return bool(self.store.check(list(keys)))
        except RuntimeError as error:
            raise PeersLost(f"Rank 0 is gone: {_first_line(error)}.") from error

    def hear(self, key: str, *, timeout_s: float) -> str:
        """Wait for ``key`` and return its value.

        Raises:
            PeersLost: If nobody tells it within ``timeout_s`` seconds, or rank 0 is gone.
        """
        deadline = time.monotonic() + timeout_s
        pause_s = 0.0002
        while not self.knows(key):
            if time.monotonic() > deadline:
                raise PeersLost(
                    f"Rank {self.rank} waited {timeout_s:.0f} s for its peers ({key}).",
                    hint="Every rank must make the same calls in the same order; see the logs of the others.",
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)
        return str(self.store.get(key).decode())

    def main_decides(self, key: str, decide: Callable[[], str], *, timeout_s: float) -> str:
        """Let rank 0 decide something and return it in every rank; each ``key`` serves once.

        Raises:
            PeersLost: In the other ranks, if ``decide`` failed in rank 0, where its own error is raised.
        """
        if self.is_main:
            try:
                decision = decide()
            except Exception as error:
                self.tell(key, f"-{type(error).__name__}: {error}")
                raise
            self.tell(key, f"+{decision}")
            return decision
        answer = self.hear(key, timeout_s=timeout_s)
        if answer[0] == "-":
            raise PeersLost(f"Rank 0 failed: {answer[1:]}")
        return answer[1:]

    def hear_all(self, key: str, *, timeout_s: float) -> list[str]:
        """Return what every rank told under ``key/<rank>``, in the order of ranks."""
        deadline = time.monotonic() + timeout_s
        return [
            self.hear(f"{key}/{rank}", timeout_s=max(0.0, deadline - time.monotonic()))
            for rank in range(self.world_size)
        ]


def meet_peers(purpose: str) -> Peers:
    """Return the processes of this run; all ranks call it in the same order.

    Args:
        purpose: Shown in the keys.

    Raises:
        InvalidRequest: If there are several processes and no process group.
    """
    name = f"helpers/{purpose}-{next(_names)}"
    run = current_run()
    if not dist.is_initialized():
        if run.world_size > 1:
            raise InvalidRequest(
                f"This is process {run.rank} of {run.world_size}, and they have no process group.",
                hint="Put the training under `with distributed():` (from helpers.training import distributed).",
            )
        return _alone(name)
    if dist.get_world_size() == 1:
        return _alone(name)
    address = _address or _share_address()
    return Peers(
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
        store=_client(address, name),
        name=name,
        address=address,
    )


def use_store(address: rendezvous.Address | None) -> None:
    """Remember the store of our own process group; None when that has ended."""
    global _address  # noqa: PLW0603 -- one process group a process
    _address = address
    if address is None:
        _hosted.clear()


def keep_store(connection: rendezvous.Connection) -> None:
    """Keep rank 0's store alive until the group ends."""
    _hosted.append(connection)


def close_before_end(closer: Callable[[float | None], object]) -> None:
    """Have ``closer`` called before the process group ends, with the seconds that it may take (None: any)."""
    _closers.append(closer)


def close_all(*, patience_s: float | None = None) -> None:
    """Stop what still talks to the store."""
    while _closers:
        _closers.pop()(patience_s)


def _alone(name: str) -> Peers:
    return Peers(rank=0, world_size=1, store=HashStore(), name=name, address=None)


def _client(address: rendezvous.Address, name: str) -> Store:
    return PrefixStore(name, rendezvous.connect(address, timeout=_TIMEOUT).store)


def _share_address() -> rendezvous.Address:
    """Start a store beside a process group that somebody else made, and tell all ranks where."""
    told: list[rendezvous.Address | None] = [None]
    if dist.get_rank() == 0:
        connection = rendezvous.open_store(one_node=rendezvous.on_one_node(current_run()), timeout=_TIMEOUT)
        keep_store(connection)
        told = [connection.address]
    dist.broadcast_object_list(told, src=0)
    if told[0] is None:
        raise PeersLost("Rank 0 did not tell where its store is.")
    use_store(told[0])
    return told[0]


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
