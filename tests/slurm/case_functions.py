"""Functions that ``test_cases_*.py`` submit; importable in a job, without pytest."""

import os
import time
from pathlib import Path
from typing import Any

from helpers import current_run

_LEFT: list[Any] = []  # what a function leaves behind is not collected before its process ends


def until_told(folder: str, *, from_rank: int = 0) -> int:
    """Return the rank; those from ``from_rank`` on wait for a file."""
    rank = current_run().rank
    Path(folder, f"runs-{current_run().attempt}-{rank}").touch()
    while rank >= from_rank and not Path(folder, "go").exists():
        time.sleep(0.1)
    return rank


def leave_a_loader() -> tuple[int, int, list[int]]:
    """Return while the workers of a loader are alive: 42, torch's threads, and the processes of this job."""
    import psutil
    import torch
    from torch.utils.data import DataLoader

    loader: DataLoader[int] = DataLoader(list(range(8)), num_workers=1, persistent_workers=True)  # type: ignore[arg-type]
    batches = iter(loader)
    next(batches)
    _LEFT.extend([loader, batches])
    workers = [child.pid for child in psutil.Process().children(recursive=True)]
    return 42, torch.get_num_threads(), [os.getpid(), *workers]


def sum_of_ranks(folder: str) -> float:
    """Add up the ranks, from 1 on, over all processes; a first attempt then waits for a file."""
    import torch
    import torch.distributed as dist

    from helpers.training import distributed

    with distributed(timeout="2min"):
        total = torch.tensor([current_run().rank + 1.0])
        dist.all_reduce(total)
        until_told(folder)
    return float(total)


def threads() -> str | None:
    """Return what numeric libraries go by."""
    return os.environ.get("OMP_NUM_THREADS")
