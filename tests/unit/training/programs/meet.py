"""Meet the other ranks and do what the mode says; print one line of JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from helpers.runtime.current import current_run
from helpers.training import Checkpointer, all_mean, distributed, get_device, is_main, main_first


def meet() -> dict[str, object]:
    """Enter twice; use every small thing."""
    rank = current_run().rank
    with distributed(timeout="60s"):
        first = all_mean(rank)
    with distributed(timeout="60s"):
        with main_first():
            found = Path("cache").exists()
            if is_main():
                time.sleep(0.3)
                Path("cache").write_text("")
        total = torch.tensor([float(rank)])
        if dist.is_initialized():  # one process alone has no group
            dist.all_reduce(total)
        again = all_mean(torch.tensor(2.0))
    return {
        "mean": first,
        "again": again,
        "sum": total.item(),
        "found": found,
        "threads": torch.get_num_threads(),
        "left_over": dist.is_initialized() or "GLOO_SOCKET_IFNAME" in os.environ,
    }


def keep() -> dict[str, object]:
    """Save and load in a group that somebody else made."""
    with distributed(timeout="60s"):
        state = {"n": 5}
        checkpoint = Checkpointer(state, folder="c", save_every=1)
        list(checkpoint.steps(2))
        state["n"] = 0
        checkpoint.restore()
    return {"n": state["n"]}


def again() -> dict[str, object]:
    """Save a step three times, and load what was saved last."""
    with distributed(timeout="60s"):
        state = {"n": 1}
        checkpoint = Checkpointer(state, folder="c", save_every=1)
        checkpoint.step()
        for value in (2, 3):
            state["n"] = value
            checkpoint.save()
        state["n"] = 0
        checkpoint.restore()
    return {"n": state["n"]}


def on_gpus() -> dict[str, object]:
    """Add up the ranks on their GPUs."""
    with distributed(timeout="60s"):
        total = torch.tensor([float(current_run().rank)], device=get_device())
        dist.all_reduce(total)
        return {"backend": dist.get_backend(), "sum": total.item()}


def fail() -> dict[str, object]:
    """Rank 1 fails while the others wait for it in a collective."""
    rank = current_run().rank
    with distributed(timeout="60s"):
        dist.barrier()
        if rank == 1:
            raise ValueError("the cause")
        dist.barrier()
    return {}


def soon() -> dict[str, object]:
    """Wait for rank 1, not for long, once ranks 0 and 2 are here."""
    Path(f"here-{current_run().rank}").touch()
    while not (Path("here-0").exists() and Path("here-2").exists()):
        time.sleep(0.05)
    with distributed(timeout="4s"):
        pass
    return {}


def late() -> dict[str, object]:
    """Rank 0 is done long before rank 1."""
    with distributed(timeout="60s"):
        if current_run().rank == 1:
            time.sleep(3)
    return {"done": True}


if __name__ == "__main__":
    print("RESULT " + json.dumps(globals()[sys.argv[1]]()), flush=True)
