"""Functions that jobs run to tell how they load data."""

import os
import warnings
from pathlib import Path
from typing import Any

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def stage_on_each_node(source: str, disks: str) -> tuple[str, str, str]:
    """Stage a folder on a disk of this node's own; tell the node, where the copy is, and what is in it."""
    from helpers.training import stage

    node = os.environ["SLURMD_NODENAME"]
    copy = stage(source, to=Path(disks, node))
    return node, str(copy), (copy / "cat.txt").read_text()


def threads_and_workers() -> tuple[list[str | None], int, int]:
    """Tell what numeric libraries go by, torch's threads, and the workers of a loader that chooses them itself."""
    import torch

    from helpers.training import distributed, make_loader, suggest_workers

    threads = torch.get_num_threads()
    with warnings.catch_warnings(), distributed(timeout="2min"):
        warnings.simplefilter("error")  # torch would warn of more workers than CPUs
        data: Any = torch.utils.data.TensorDataset(torch.arange(4))
        assert len(list(make_loader(data, batch_size=2, num_workers="auto"))) > 0
    return [os.environ.get(name) for name in THREAD_VARIABLES], threads, suggest_workers()


class Numbers:
    """A data set that a fork server's workers can import."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


def leave_a_fork_server() -> list[str]:
    """Load with workers as a process does that has begun to use CUDA; tell what runs below it then."""
    import psutil
    import torch

    from helpers.training import make_loader

    vars(torch.cuda)["is_initialized"] = lambda: True
    data: Any = Numbers()
    assert len(list(make_loader(data, batch_size=2, num_workers=1))) == 2
    return [" ".join(child.cmdline()) for child in psutil.Process().children()]
