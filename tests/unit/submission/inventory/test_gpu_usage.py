"""GPUs, counted from what ``scontrol`` prints; on a machine without Slurm, from the driver and the leases."""

import getpass
import os
import time

import pytest

from helpers.runtime.gpus.lease import Lease, new_ticket, wait_for_gpus
from helpers.runtime.gpus.nvml import list_gpus
from helpers.runtime.gpus.queue import GpuQueue, leases_folder
from helpers.submission.inventory import gpu_usage
from helpers.submission.inventory.gpu_usage import GpuCount, count_cluster_gpus, list_own_gpus
from tests.gpu_driver.cards import Cards

# Slurm 22.05.8, shortened: one node half used, one full of CPUs, one drained, one without GPUs
NODES = """\
NodeName=g1 Arch=x86_64 CPUAlloc=2 CPUEfctv=8 CPUTot=8 Gres=gpu:a100:4,gpu:2g.10gb:2 GresDrain=N/A GresUsed=gpu:a100:1(IDX:0),gpu:2g.10gb:0(IDX:N/A) OS=Linux 6.1 #1 SMP State=MIXED Partitions=gpu,low
NodeName=g2 CPUAlloc=8 CPUTot=8 Gres=gpu:a100:4(S:0-1) GresUsed=gpu:a100:1(IDX:0) State=ALLOCATED Partitions=gpu
NodeName=g3 CPUAlloc=0 CPUTot=8 Gres=gpu:a100:4 GresUsed=gpu:a100:0(IDX:N/A) State=IDLE+DRAIN Partitions=gpu
NodeName=c1 CPUAlloc=0 CPUTot=8 Gres=(null) State=IDLE Partitions=cpu,gpu
"""  # noqa: E501 -- as it is printed


def test_gpus_are_counted_by_partition_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free is what a job could get: not where a node is drained, nor where it has no CPU left."""
    monkeypatch.setattr(gpu_usage, "ask_slurm", lambda _: NODES)
    assert count_cluster_gpus() == [
        GpuCount(partition="gpu", kind="2g.10gb", nodes=1, total=2, used=0, down=0, free=2, most_free=2),
        GpuCount(partition="gpu", kind="a100", nodes=3, total=12, used=2, down=4, free=3, most_free=3),
        GpuCount(partition="low", kind="2g.10gb", nodes=1, total=2, used=0, down=0, free=2, most_free=2),
        GpuCount(partition="low", kind="a100", nodes=1, total=4, used=1, down=0, free=3, most_free=3),
    ]


def test_without_slurm_it_is_this_machine_and_who_has_what(cards: Cards) -> None:
    """A lease, a program without one, and what is free."""
    pid = os.getpid()
    cards.are([{"uuid": "GPU-0", "busy": 7}, {"uuid": "GPU-1", "processes": [[pid, 900]]}, {"uuid": "GPU-2"}])
    queue = GpuQueue(leases_folder(os.environ))
    held = _lease(queue, "local-1")
    found = list_own_gpus()
    user = getpass.getuser()
    assert [(gpu.uuid, gpu.held_by and (gpu.held_by.job, gpu.held_by.user), gpu.used_by) for gpu in found] == [
        ("GPU-0", ("local-1", user), ""),
        ("GPU-1", None, f"pid {pid} of {user} with 900 MiB"),
        ("GPU-2", None, ""),
    ]
    held.give_back()
    assert list_own_gpus()[0].held_by is None


def test_a_gpu_that_its_holder_leaves_alone_is_marked(cards: Cards) -> None:
    """Ten minutes without a process, as its supervisor saw; nothing is done about it."""
    cards.number(1)
    queue = GpuQueue(leases_folder(os.environ))
    held = _lease(queue, "local-1")
    queue.note_idle(held.ticket, {"GPU-0": time.time() - 1500})
    assert list_own_gpus()[0].idle_s == pytest.approx(1500, abs=60)
    queue.note_idle(held.ticket, {"GPU-0": time.time() - 60})
    assert list_own_gpus()[0].idle_s is None
    held.give_back()


def test_a_machine_without_a_driver_has_none(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop."""
    monkeypatch.delenv("STAND_IN_CARDS")
    assert list_own_gpus() == []


def _lease(queue: GpuQueue, job: str) -> Lease:
    wanted = new_ticket({}, list_gpus(), job=job, folder="/runs/a", wants=1)
    lease = wait_for_gpus(queue, wanted, is_stopped=lambda: False, tell=print)
    assert lease is not None
    return lease
