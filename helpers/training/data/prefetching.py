"""Have the next batches on the device before the loop asks for them, and still know which ones it has seen."""

from __future__ import annotations

import contextlib
import queue
import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from helpers.errors import InvalidRequest
from helpers.training.data.loader import Loader
from helpers.training.data.nested_batch import move, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from helpers.training.data.loader import Ahead

_Batch = TypeVar("_Batch")
_LAST_BATCH_S = 5  # how long the end of a loop waits for a batch that is being read


def prefetch(loader: Iterable[_Batch], device: torch.device | str, *, depth: int = 2) -> Prefetched[_Batch]:
    """Read and copy batches to the device while the loop computes.

    A thread reads ``depth`` batches ahead of the loop. On CUDA the copies run on a stream of their own, beside the
    computation; they are quickest from page-locked memory, which :func:`make_loader` uses by itself. An error of
    the data set is raised at the step whose batch it would have been. Reading ahead moves no position: what a
    ``Checkpointer`` saves of the loader is what the loop has seen.

    Args:
        loader: Of :func:`make_loader`, torch's own ``DataLoader``, or anything that can be iterated over.
        device: Where the batches go, such as what :func:`get_device` returns.
        depth: How many batches are read ahead of the one that the loop has; the device holds one more.

    Returns:
        An iterable over batches on the device. All else that the loader has, it has too: length, position.

    Raises:
        InvalidRequest: If ``depth`` is below 1, or the loader keeps a position that is not ours to hold back. And
            from the loop: if the data set draws random numbers in this process (``num_workers=0``), where
            reading ahead would mix them with the training's and a resumed run would not be the same.
    """
    if depth < 1:
        raise InvalidRequest(f"prefetch reads at least 1 batch ahead, got depth={depth}.", hint="depth=2")
    if not isinstance(loader, Loader) and hasattr(loader, "state_dict"):
        raise InvalidRequest(
            f"{type(loader).__name__} has a state_dict(), which would tell of batches that the loop has not seen.",
            hint="Make the loader with make_loader(dataset, batch_size=…).",
        )
    return Prefetched(loader, torch.device(device), depth)


class Prefetched(Generic[_Batch]):
    """An iterable over batches on the device; see :func:`prefetch`."""

    def __init__(self, loader: Iterable[_Batch], device: torch.device, depth: int) -> None:
        self._loader = loader
        self._device = device
        self._depth = depth

    def __iter__(self) -> Iterator[_Batch]:
        batches: Ahead
        if isinstance(self._loader, Loader):
            batches = self._loader.read_ahead()
            draws = self._loader.reads_here
        else:
            batches = ((batch, _do_nothing) for batch in self._loader)
            draws = False
        return _iterate(_Reader(batches, _lane(self._device), self._depth), must_not_draw=draws)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_loader" not in self.__dict__:  # being copied or unpickled
            raise AttributeError(name)
        return getattr(self._loader, name)


@dataclass(frozen=True)
class _Read:
    """A batch on its way, how the loop gets it, and what to call once it has."""

    batch: Any
    ready: Any
    consumed: Callable[[], None]


@dataclass(frozen=True)
class _Failed:
    """What reading a batch raised; None at the end of the batches."""

    error: BaseException | None


class _Thread:
    """Copies in the thread itself, for devices without streams of ours."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def enter(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def send(self, batch: Any) -> tuple[Any, Any]:
        return move(batch, self._device), None

    def receive(self, batch: Any, ready: Any) -> None:
        """Nothing is left to wait for."""


class _SideStream:
    """Copies on a CUDA stream beside the computation's.

    Source: torch's "CUDA semantics": an event orders the streams, ``record_stream`` keeps the allocator from
    giving the memory away while the computation uses it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(self._device))  # a data set that was made there

    def enter(self) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.stream(self._stream)

    def send(self, batch: Any) -> tuple[Any, Any]:
        return move(batch, self._device), self._stream.record_event()

    def receive(self, batch: Any, ready: Any) -> None:
        current = torch.cuda.current_stream(self._device)
        current.wait_event(ready)
        for tensor in tensors_in(batch):
            if tensor.is_cuda:
                tensor.record_stream(current)


def _lane(device: torch.device) -> _Thread | _SideStream:
    return _SideStream(device) if device.type == "cuda" else _Thread(device)


class _Reader:
    """Reads batches in a thread, never more than ``depth`` ahead."""

    def __init__(self, batches: Ahead, lane: _Thread | _SideStream, depth: int) -> None:
        self.lane = lane
        self._batches = batches
        self._free = threading.Semaphore(depth)
        self._read: queue.SimpleQueue[_Read | _Failed] = queue.SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="helpers-prefetch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def read_one(self) -> bool:
        """Read a batch; return whether there may be more."""
        try:
            with self.lane.enter():
                batch, consumed = next(self._batches)
                self._read.put(_Read(*self.lane.send(batch), consumed))
        except StopIteration:
            self._read.put(_Failed(None))
            return False
        except BaseException as error:  # noqa: BLE001 -- raised where the loop has come to this batch
            self._read.put(_Failed(error))
            return False
        return True

    def take(self) -> _Read | _Failed:
        """Wait for the next batch, and let another be read."""
        item = self._read.get()
        self._free.release()
        return item

    def end(self) -> None:
        """End the thread, once it has read the batch that it is at."""
        self._ended = True
        self._free.release()
        if self._thread.ident is not None:
            self._thread.join(_LAST_BATCH_S)

    def _run(self) -> None:
        while self._free.acquire() and not self._ended and self.read_one():
            pass
        self._batches.close()


def _iterate(reader: _Reader, *, must_not_draw: bool) -> Iterator[Any]:
    before = _random_state() if must_not_draw else None
    if reader.read_one():  # here, so that workers are started by the thread that the loop runs in
        if before is not None and before != _random_state():
            raise InvalidRequest(
                "The data set draws random numbers in the training's own process, and prefetch would draw them ahead.",
                hint="make_loader(…, num_workers=1): workers draw from generators of their own.",
            )
        reader.start()
    try:
        while isinstance(item := reader.take(), _Read):
            reader.lane.receive(item.batch, item.ready)
            item.consumed()
            yield item.batch
        if item.error is not None:
            raise item.error
    finally:
        reader.end()


def _random_state() -> tuple[Any, ...]:
    numpy: Any = np.random.get_state()  # noqa: NPY002 -- the global one is what data sets draw from
    return random.getstate(), numpy[1].tobytes(), numpy[2], torch.get_rng_state().numpy().tobytes()


def _do_nothing() -> None:
    """A loader without a position has nothing to note."""
