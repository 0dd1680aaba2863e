"""What the tests of MPI submit."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import helpers


def meet(ending: str = "") -> dict[str, Any]:
    """Tell this rank's place by MPI, by this library and by Slurm, once all have met; or let one rank end first."""
    from mpi4py import MPI

    world, run = MPI.COMM_WORLD, helpers.current_run()
    total = world.allreduce(world.rank)
    if ending:
        if ending == "raise" and world.rank == 2:
            raise ValueError("rank two is wrong")
        if ending == "kill" and world.rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        world.recv(source=(world.rank + 1) % world.size)  # which nobody sends
    print(f"rank {world.rank} met {world.size}", flush=True)
    return {
        "mpi": (world.rank, world.size),
        "helpers": (run.rank, run.world_size, run.local_rank, run.ranks.node_rank),
        "slurm": [os.environ.get(f"SLURM_{name}") for name in ("PROCID", "LOCALID", "NODEID", "NTASKS")],
        "node": os.uname().nodename,
        "total": total,
    }


def count(element: int) -> list[int]:
    """Return the element of an array, and the ranks that it has."""
    from mpi4py import MPI

    return [element, MPI.COMM_WORLD.allreduce(1)]


def train(steps: int, folder: str) -> list[tuple[int, int]]:
    """Count the ranks in each step; the first attempt waits in its third step until it is asked to stop."""
    from mpi4py import MPI

    from helpers.training import Checkpointer, distributed

    run = helpers.current_run()
    state: dict[str, Any] = {"seen": []}
    with distributed():
        checkpoint = Checkpointer(state, save_every=1000)
        for step in checkpoint.steps(steps):
            state["seen"].append((run.attempt, MPI.COMM_WORLD.allreduce(1)))
            Path(folder, f"at-{run.rank}-{step}").touch()
            while step == 2 and run.attempt == 0 and not run.stop_requested():
                time.sleep(0.05)
            checkpoint.step()
    return state["seen"]
