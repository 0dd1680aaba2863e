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

import torch
import torch.distributed as dist

from helpers.runtime.current import Run, current_run
from helpers.runtime.rank.addresses import LOOPBACK, resolve
from helpers.runtime.rank.place import is_srun_task
from helpers.runtime.rank.thread_count import available_cpus
from helpers.runtime.stop import LeaveForRequeue
from helpers.training.devices.device import GpuNotSeen, get_device, name_gpu
from helpers.training.devices.threads import fix_threads
from helpers.training.durations import read_seconds
from helpers.training.ranks import peers, rendezvous, transport
from helpers.training.ranks.interface import use_interface
from helpers.training.ranks.stores import PrefixStore, Store, open_by_url

if TYPE_CHECKING:
    from collections.abc import Iterator

_END_S = 60.0  # how long a rank that is done waits for the others, so that it does not pull the store away
_REQUEUE_END_S = 10.0  # the same when the scheduler has asked us to stop: its grace is short
_ABANDON_S = 5.0  # how long a broken group may take to be destroyed before it is left to the kernel
_FIRST_FAILURE_S = 1.0  # a failure that follows another's is passed on later, so that the cause is seen first
_entries = itertools.count()
_said_alone = False


@contextmanager
def distributed(*, timeout: str | float | timedelta = "10min") -> Iterator[None]:
    """Run the block inside a process group where there is more than one process, else simply run it.

    NCCL where :func:`get_device` is a CUDA device, else gloo, through the network interface that leads to the
    other ranks. A group that exists already is used and not destroyed; under ``torchrun`` the meeting point is
    torchrun's. In every case torch's threads are fixed from the CPUs this process may use, unless
    ``OMP_NUM_THREADS`` or ``MKL_NUM_THREADS`` is set. Rank 0 says what the ranks talk over, and how fast.

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
            _say_alone()
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


def _say_alone() -> None:
    """Tell who works in the shell of an allocation that nothing starts the other processes there."""
    global _said_alone  # noqa: PLW0603 -- said once a process
    environment = os.environ
    if _said_alone or "SLURM_JOB_ID" not in environment or "RANK" in environment or is_srun_task(environment):
        return
    _said_alone = True
    message = (
        f"helpers: this is one process in the allocation of job {environment['SLURM_JOB_ID']}; "
        "`srun python …` starts one for each of its tasks."
    )
    print(message, file=sys.stderr, flush=True)


def _begin(run: Run, timeout: timedelta) -> Store:
    device = get_device()
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index)
    backend = "nccl" if device.type == "cuda" else "gloo"
    at_theirs = _has_own_meeting_point(run)
    store, host = _meet_at_theirs(run, timeout) if at_theirs else _meet(run, timeout)
    cards = _exchange_cards(run, store, device, host=host)
    _use_cards(cards, run)
    interface = use_interface(backend, _other_end(run, cards, host))
    group = PrefixStore("group", store)
    nodes = len({card["node_rank"] for card in cards})
    with transport.NcclLog(listen=backend == "nccl" and run.rank == 0) as log:
        dist.init_process_group(backend, store=group, rank=run.rank, world_size=run.world_size, timeout=timeout)
        transport.report_network(device, nodes=nodes, interface=interface, log=log)
    return peers.meet_peers("group").store if at_theirs else store


def _has_own_meeting_point(run: Run) -> bool:
    """Say whether torchrun, or whoever set these variables, has settled where the processes meet."""
    if dist.is_torchelastic_launched():
        return True
    return run.folder is None and "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ


def _meet_at_theirs(run: Run, timeout: timedelta) -> tuple[Store, str]:
    """Return the store that torchrun's variables name, and its host."""
    store, _, _ = next(open_by_url("env://", run.rank, run.world_size, timeout=timeout))
    # one of torchrun's own serves for all that a process enters
    host = os.environ["MASTER_ADDR"]
    return PrefixStore(f"helpers-{next(_entries)}", store), next(iter(resolve((host,))), host)


def _meet(run: Run, timeout: timedelta) -> tuple[Store, str]:
    """Return a client of the store that rank 0 hosts, and the address where it is reached from here."""
    path = rendezvous.rendezvous_file(run, next(_entries))
    if run.rank != 0:
        connection = rendezvous.connect(rendezvous.find(path, run, timeout=timeout), timeout=timeout)
        peers.use_store(connection.address)
        return connection.store, connection.host
    connection = rendezvous.open_store(one_node=rendezvous.on_one_node(run), timeout=timeout)
    peers.keep_store(connection)
    peers.use_store(connection.address)
    rendezvous.publish(path, connection.address, run)
    _wait_for_cards(connection.store, run)
    if run.folder is None:
        path.unlink(missing_ok=True)  # it lies among the user's own files
    return connection.store, connection.host


def _exchange_cards(run: Run, store: Store, device: torch.device, *, host: str) -> list[dict[str, Any]]:
    """Tell the others what this process may use; return what each of them does."""
    card = {
        "node": socket.gethostname(),
        "node_rank": run.ranks.node_rank,  # containers may bear one and the same name
        "cpus": sorted(available_cpus()),
        "gpu": name_gpu(device),
        "host": host,
    }
    store.set(f"card/{run.rank}", json.dumps(card))
    _wait_for_cards(store, run, with_own=True)
    cards = [json.loads(store.get(f"card/{rank}")) for rank in range(run.world_size)]
    store.set(f"read/{run.rank}", "1")
    if run.rank == 0:  # it hosts the store, and may leave because of what it has read
        with suppress(RuntimeError):
            store.wait([f"read/{rank}" for rank in range(1, run.world_size)], timedelta(seconds=_ABANDON_S))
    return cards


def _wait_for_cards(store: Store, run: Run, *, with_own: bool = False) -> None:
    """Wait for the cards of all ranks, as long as the store's own timeout is.

    Raises:
        RendezvousFailed: With the ranks that did not come.
    """
    keys = {rank: f"card/{rank}" for rank in range(run.world_size) if with_own or rank != run.rank}
    try:
        store.wait(list(keys.values()))
    except RuntimeError as error:
        missing: list[int] = []
        with suppress(RuntimeError):  # rank 0 may be gone, and the store with it
            missing = [rank for rank, key in keys.items() if not store.check([key])]
        who = ", ".join(map(str, missing)) or "0"
        raise rendezvous.RendezvousFailed(
            f"Rank {run.rank} of {run.world_size} waited in vain for {'ranks' if len(missing) > 1 else 'rank'} {who}.",
            hint="Look at their logs: they may have failed before they came here, or never called distributed().",
        ) from error


def _use_cards(cards: list[dict[str, Any]], run: Run) -> None:
    own = cards[run.rank]
    for rank, card in enumerate(cards):
        if rank != run.rank and own["gpu"] and (card["gpu"], card["node"]) == (own["gpu"], own["node"]):
            raise GpuNotSeen(
                f"Ranks {run.rank} and {rank} would share one GPU ({own['gpu']} on {own['node']}).",
                hint="Start one process per GPU: submit(..., gpus=N) without processes=.",
            )
    fix_threads([frozenset(card["cpus"]) for card in cards if card["node"] == own["node"]])


def _other_end(run: Run, cards: list[dict[str, Any]], host: str) -> str:
    """Return an address to which the right interface leads: that of rank 0, as it is reached from another node.

    On its own node it may be reached by any of its addresses, loopback ones included.
    """
    if rendezvous.on_one_node(run):
        return LOOPBACK
    if run.ranks.node_rank != cards[0]["node_rank"]:
        return host
    return next((card["host"] for card in cards if card["node_rank"] != cards[0]["node_rank"]), host)


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
