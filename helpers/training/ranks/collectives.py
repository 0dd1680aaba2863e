"""What a training loop asks of all its processes: who prints, who goes first, the mean of a number."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from helpers.runtime.current import current_run
from helpers.training.devices.device import get_device
from helpers.training.ranks.peers import PeersLost, meet_peers

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_FIRST_S = 3600.0  # a download may take its time


def is_main() -> bool:
    """Say whether this is rank 0, the one that prints and writes; always so in a single process."""
    return dist.get_rank() == 0 if dist.is_initialized() else current_run().is_main


@contextmanager
def main_first() -> Iterator[None]:
    """Let rank 0 run the block to its end before the other ranks enter it.

    For a download or a cache: rank 0 fills it, the others find it. No collective waits meanwhile, so the
    process group's timeout does not matter; an hour is the limit.

    Raises:
        PeersLost: In the other ranks, if the block fails in rank 0.
    """
    peers = meet_peers("main-first")
    if peers.is_main:
        try:
            yield
        except BaseException as error:
            peers.tell("done", f"failed: {type(error).__name__}: {error}")
            raise
        peers.tell("done", "ok")
        return
    outcome = peers.hear("done", timeout_s=_LONGEST_FIRST_S)
    if outcome != "ok":
        raise PeersLost(f"Rank 0, which goes first, {outcome}.")
    yield


def all_mean(value: float | torch.Tensor) -> float:
    """Return the mean of ``value`` over all ranks; every rank must call it.

    Args:
        value: A number or a tensor of one element.

    Returns:
        The mean, the same in every rank; ``value`` itself in a single process.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return float(value)
    device = get_device() if dist.get_backend() == "nccl" else torch.device("cpu")
    # a sum in double precision, so that the mean of equal values is that value
    total = torch.tensor(float(value), dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()
