"""Make the process group of a run, and end it without hanging on a peer that is gone."""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import torch
import torch.distributed as dist

from helpers.runtime.current import Run, current_run
from helpers.runtime.stop import LeaveForRequeue
from helpers.training import peers, rendezvous
from helpers.training.device import GpuNotSeen, get_device
from helpers.training.durations import read_seconds
from helpers.training.stores import PrefixStore, Store
from helpers.training.threads import available_cpus, fix_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

_GLOO_VARIABLE = "GLOO_SOCKET_IFNAME"
_END_S = 60.0  # how long a rank that is done waits for the others, so that it does not pull the store away
_REQUEUE_END_S = 10.0  # the same when the scheduler has asked us to stop: its grace is short
_ABANDON_S = 5.0  # how long a broken group may take to be destroyed before it is left to the kernel
_FIRST_FAILURE_S = 1.0  # a failure that follows another's is passed on later, so that the cause is seen first
_entries = itertools.count()


@contextmanager
def distributed(*, timeout: str | float | timedelta = "10min") -> Iterator[None]:
    """Run the block inside a process group where there is more than one process, else simply run it.

    NCCL where :func:`get_device` is a CUDA device, else gloo. A group that exists already is used and not
    destroyed; under ``torchrun`` the meeting point is torchrun's. In every case torch's threads are fixed
    from the CPUs this process may use, unless ``OMP_NUM_THREADS`` or ``MKL_NUM_THREADS`` is set.

    The end is bounded: after the block all ranks wait for each other for at most a minute (10 s when they
    leave for a requeue); after an exception nobody waits.

    Args:
        timeout: How long the processes look for each other, and how long a collective may take, such as
            ``"10min"``, seconds or a timedelta.

    Raises:
        RendezvousFailed: If the processes do not find each other.
        GpuNotSeen: If a GPU was asked for and none is seen, or two ranks would share one.
    """
    run = current_run()
    if dist.is_initialized() or run.world_size == 1:
        if run.world_size == 1:
            fix_threads([available_cpus()])
        yield
        return
    store = _begin(run, timedelta(seconds=read_seconds(timeout)))
    try:
        yield
    except LeaveForRequeue:
        _end(run, store, patience_s=_REQUEUE_END_S)
        raise
    except BaseException as error:
        _abandon(run, store, error)
        raise
    else:
        _end(run, store, patience_s=_END_S)


def _begin(run: Run, timeout: timedelta) -> Store:
    device = get_device()
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if _has_own_meeting_point(run):
        dist.init_process_group(backend, timeout=timeout)
        store: Store = peers.meet_peers("group").store
        _use_cards(_exchange_cards(run, store, device, host=""), run)
        return store
    connection = _meet(run, timeout)
    cards = _exchange_cards(run, connection.store, device, host=connection.host)
    _use_cards(cards, run)
    if backend == "gloo":
        _choose_interface(run, cards, connection.host)
    dist.init_process_group(
        backend,
        store=PrefixStore("group", connection.store),
        rank=run.rank,
        world_size=run.world_size,
        timeout=timeout,
    )
    peers.use_store(connection.address)
    return connection.store


def _has_own_meeting_point(run: Run) -> bool:
    """Say whether torchrun, or whoever set these variables, has settled where the processes meet."""
    if dist.is_torchelastic_launched():
        return True
    return run.folder is None and "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ


def _meet(run: Run, timeout: timedelta) -> rendezvous.Connection:
    path = rendezvous.rendezvous_file(run, next(_entries))
    if run.rank != 0:
        return rendezvous.connect(rendezvous.find(path, run, timeout=timeout), timeout=timeout)
    connection = rendezvous.open_store(one_node=rendezvous.on_one_node(run), timeout=timeout)
    rendezvous.publish(path, connection.address, run)
    peers.keep_store(connection)
    connection.store.wait([f"card/{rank}" for rank in range(1, run.world_size)], timeout)
    if run.folder is None:
        path.unlink(missing_ok=True)  # it lies among the user's own files
    return connection


def _exchange_cards(run: Run, store: Store, device: torch.device, *, host: str) -> list[dict[str, Any]]:
    """Tell the others what this process may use; return what each of them does."""
    card = {
        "node": socket.gethostname(),
        "cpus": sorted(available_cpus()),
        "gpu": str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else None,
        "host": host,
    }
    store.set(f"card/{run.rank}", json.dumps(card))
    return [json.loads(store.get(f"card/{rank}")) for rank in range(run.world_size)]


def _use_cards(cards: list[dict[str, Any]], run: Run) -> None:
    own = cards[run.rank]
    for rank, card in enumerate(cards):
        if rank != run.rank and own["gpu"] and (card["gpu"], card["node"]) == (own["gpu"], own["node"]):
            raise GpuNotSeen(
                f"Ranks {run.rank} and {rank} would share one GPU ({own['gpu']} on {own['node']}).",
                hint="Start one process per GPU: submit(..., gpus=N) without processes=.",
            )
    fix_threads([frozenset(card["cpus"]) for card in cards if card["node"] == own["node"]])


def _choose_interface(run: Run, cards: list[dict[str, Any]], host: str) -> None:
    """Name the network interface that leads to the others, until the group ends.

    Left to itself gloo takes the one that the machine's own name resolves to, often ``127.0.1.1``.
    """
    if os.environ.get(_GLOO_VARIABLE):
        return
    target = rendezvous.LOOPBACK if rendezvous.on_one_node(run) else host
    if not rendezvous.on_one_node(run) and run.rank == 0:  # rank 0 is reached by its own address, as the others tell
        target = next((card["host"] for card in cards[1:] if card["host"]), host)
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((target, 9))  # sends nothing; asks the kernel for the route
        own = probe.getsockname()[0]
        names = [name for name, all_ in psutil.net_if_addrs().items() if any(a.address == own for a in all_)]
        if names:
            os.environ[_GLOO_VARIABLE] = names[0]
            peers.close_before_end(lambda _: os.environ.pop(_GLOO_VARIABLE, None))


def _end(run: Run, store: Store, *, patience_s: float) -> None:
    """Wait for the others, bounded, then end the group; rank 0, which hosts the store, goes last."""
    everybody = [rank for rank in range(run.world_size) if rank != run.rank]
    met = _say_and_wait(store, "end", run.rank, everybody, patience_s)
    peers.close_all()
    if met:
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        _say_and_wait(store, "closed", run.rank, everybody, _ABANDON_S)
        dist.destroy_process_group()
        _say_and_wait(store, "left", run.rank, everybody if run.rank == 0 else [], _ABANDON_S)
    else:
        message = f"helpers: rank {run.rank} ends without the others, which were not done after {patience_s:.0f} s."
        print(message, file=sys.stderr, flush=True)
        _destroy_bounded()
    peers.use_store(None)


def _say_and_wait(store: Store, word: str, rank: int, others: list[int], patience_s: float) -> bool:
    try:
        store.set(f"{word}/{rank}", "1")
        deadline = time.monotonic() + patience_s
        pause_s = 0.001
        while others and not store.check([f"{word}/{other}" for other in others]):
            if time.monotonic() > deadline:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)
    except RuntimeError:  # the store is gone, and rank 0 with it
        return False
    return True


def _abandon(run: Run, store: Store, error: BaseException) -> None:
    """Leave a group that is broken, and say who broke it."""
    story = f"rank {run.rank}: {type(error).__name__}: {error}"
    with suppress(RuntimeError):
        first = store.compare_set("first-failure", "", story).decode()
        if first != story:
            error.add_note(f"This follows an earlier failure, in {first}")
            time.sleep(_FIRST_FAILURE_S)
    peers.close_all(patience_s=_ABANDON_S)
    _destroy_bounded()


def _destroy_bounded() -> None:
    """Destroy the group in a thread that may be left behind: NCCL can wait for ever for a peer that is gone."""

    def destroy() -> None:
        with suppress(RuntimeError):
            dist.destroy_process_group()

    thread = threading.Thread(target=destroy, name="helpers-destroy-group", daemon=True)
    thread.start()
    thread.join(_ABANDON_S)
