"""What runs in a loader's workers: batches with random numbers of their own, deaf to the scheduler."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import threading
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.utils.data import DataLoader, TensorDataset

_FORKSERVER = "forkserver"

_said_forkserver = False


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
        together = getattr(self._dataset, "__getitems__", None)
        return together(indexes) if together else [self._dataset[index] for index in indexes]


class TensorBatches(Dataset[Any]):
    """A ``TensorDataset`` that is indexed by whole batches: no loop over samples, nothing to collate."""

    def __init__(self, dataset: TensorDataset) -> None:
        self._tensors = dataset.tensors

    def __getitems__(self, batch: list[Any]) -> list[torch.Tensor]:
        """Return one tensor, (batch, ...), for each of the data set's."""
        indexes = torch.tensor(batch[1])
        return [tensor[indexes.to(tensor.device)] for tensor in self._tensors]


def begin(loader: DataLoader[Any]) -> Iterator[Any]:
    """Begin an iteration: start the workers, deaf to the scheduler from their first moment on."""
    instead_of_fork = _avoid_fork(loader)
    with _quiet():
        try:
            return iter(loader)
        except Exception as error:
            if instead_of_fork:
                error.add_note(
                    f"CUDA is in use in this process, so that workers are started by {_FORKSERVER}, and what they need "
                    "must be picklable. Define the data set in a module of your project, not in a function; or "
                    'make_loader(…, multiprocessing_context="fork") if it never touches CUDA.'
                )
            raise


def _avoid_fork(loader: DataLoader[Any]) -> bool:
    """Have workers started by a process without CUDA where this one has begun to use it: a fork would not work there.

    Source: torch's "CUDA in multiprocessing": the CUDA runtime does not support the start method fork.
    """
    global _said_forkserver  # noqa: PLW0603 -- said once a process
    if loader.num_workers == 0 or loader.multiprocessing_context is not None or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    if multiprocessing.get_start_method() != "fork":
        return False
    loader.multiprocessing_context = _FORKSERVER
    if not _said_forkserver:
        _said_forkserver = True
        message = f"helpers: CUDA is in use, so that the loader's workers are started by {_FORKSERVER}, not by a fork."
        print(message, file=sys.stderr, flush=True)
    multiprocessing.get_context(_FORKSERVER).set_forkserver_preload([__name__])  # else each worker imports torch
    with _quiet():
        resource_tracker.ensure_running()  # starting it lifts the block of SIGTERM: not when workers are started
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold signals back while workers are started, so that they never hear one before they are deaf to it.

    Children inherit the mask, and so does a fork server. The process itself hears the signal in another thread, or
    right afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})
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
        threading.Thread(target=_heed_parent, args=(_maker(),), daemon=True).start()
        if self._then is not None:
            self._then(worker)


def _maker() -> int:
    """Return the process that made this one, which a fork server may stand between."""
    parent = multiprocessing.parent_process()
    return os.getppid() if parent is None or parent.pid is None else parent.pid


def _heed_parent(parent: int) -> None:
    """End at a SIGTERM that the parent sends, as torch does with a worker that does not end by itself."""
    while True:
        if signal.sigwaitinfo({signal.SIGTERM}).si_pid == parent:
            os._exit(0)
