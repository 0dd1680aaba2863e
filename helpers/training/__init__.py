"""Runs inside the job, with torch: device, process group, checkpoints, data loader. The only importer of torch."""

from helpers.training.checkpoint import Checkpointer
from helpers.training.collectives import all_mean, is_main, main_first
from helpers.training.data_parallel import wrap
from helpers.training.device import get_device
from helpers.training.distributed import distributed
from helpers.training.loader import make_loader

__all__ = [
    "Checkpointer",
    "all_mean",
    "distributed",
    "get_device",
    "is_main",
    "main_first",
    "make_loader",
    "wrap",
]
