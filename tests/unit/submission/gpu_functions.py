"""Functions that hold the GPUs that they see."""

import fcntl
import os
import time
from pathlib import Path

from helpers import submit


def hold(folder: str, seconds: float) -> str:
    """Hold what is seen for a while, and raise if somebody else does; return the variable."""
    visible = os.environ["CUDA_VISIBLE_DEVICES"]
    witnesses = [os.open(Path(folder, uuid), os.O_RDWR | os.O_CREAT) for uuid in visible.split(",")]
    for witness in witnesses:
        fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
    time.sleep(seconds)
    return visible


def tell_end(folder: str) -> float:
    """Hold what is seen, and return when the time limit is reached, in seconds since the epoch."""
    hold(folder, 0)
    return float(os.environ["HELPERS_END_TIME"])


def hold_in_a_job_of_this(folder: str) -> str:
    """Submit a job that holds one of the GPUs that this one has."""
    return submit(hold, folder, 0, gpus=1, cluster="local").result(240)


def wait_for_file(path: str) -> str:
    """Return the variable once a file is there."""
    while not Path(path).exists():
        time.sleep(0.05)
    return os.environ["CUDA_VISIBLE_DEVICES"]


def multiply() -> float:
    """Multiply two matrices of ones on the GPU, and return an element."""
    import torch

    ones = torch.ones(1024, 1024, device="cuda")
    return float((ones @ ones)[0, 0])
