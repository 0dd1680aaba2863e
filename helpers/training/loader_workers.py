"""What runs in a loader's workers: batches with random numbers of their own, deaf to the scheduler."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.utils.data import TensorDataset


class SeededDataset(Dataset[Any]):
    """A data set whose batches are ``[seed, indexes]``; in a worker, each batch begins with its seed.

    A worker that is seeded once would give other random numbers to batch 7 after a resume at batch 5 than
    it does in one go; here they depend on the batch alone.
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        self._dataset = dataset

    def __getitems__(self, batch: list[Any]) -> Any:
        """Return the samples of one batch, as torch's loader asks for them."""
        seed, indexes = batch
        if get_worker_info() is not None:  # the main process's generators belong to the training
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002 -- the global one is what data sets draw from
            torch.manual_seed(seed)
        listed = indexes.tolist()
        together = getattr(self._dataset, "__getitems__", None)
        return together(listed) if together else [self._dataset[index] for index in listed]


class TensorBatches(Dataset[Any]):
    """A ``TensorDataset`` that is indexed by whole batches: no loop over samples, nothing to collate."""

    def __init__(self, dataset: TensorDataset) -> None:
        self._tensors = dataset.tensors

    def __getitems__(self, batch: list[Any]) -> list[torch.Tensor]:
        """Return one tensor, (batch, ...), for each of the data set's."""
        return [tensor[batch[1].to(tensor.device)] for tensor in self._tensors]


@contextmanager
def quiet_start() -> Iterator[None]:
    """Hold SIGTERM back while workers are started, so that they never hear one before they are deaf to it.

    Children inherit the mask. The process itself hears the signal in another thread, or right afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerStart:
    """Called at the start of each worker: SIGTERM from anyone but the parent is ignored.

    Where the scheduler signals every process of a job, workers that end at SIGTERM would break the training
    loop before it reaches a step's boundary. They end when the loader does, or when their parent is gone.

    Args:
        then: The user's own ``worker_init_fn``.
    """

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        """Prepare worker number ``worker``."""
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_heed_parent, args=(os.getppid(),), daemon=True).start()
        if self._then is not None:
            self._then(worker)


def _heed_parent(parent: int) -> None:
    """End at a SIGTERM that the parent sends, as torch does with a worker that does not end by itself."""
    while True:
        if signal.sigwaitinfo({signal.SIGTERM}).si_pid == parent:
            os._exit(0)
