"""What the loader's position costs beside torch's own loader, and what prefetching hides.

The load of the second is a sleep, which holds no lock of the interpreter, as a copy to a GPU holds none.
"""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row, Times, interleave

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUNDS = 81
_SAMPLES = 8192
_BATCH_SIZE = 64
_STEPS = 60
_STEP_S = 0.02


def rows() -> Iterator[Row]:
    """Measure both in this process."""
    yield _position()
    yield _prefetch()


def _position() -> Row:
    """Go through an epoch, in one thread's own time: whatever else runs, it is not counted.

    A sample is the checksum of 32 KiB, in place of decoding a small image: it takes time and no memory, whose
    page faults differ by more than what is measured.
    """
    import torch
    from torch.utils.data import DataLoader, Dataset

    from helpers.training import make_loader

    class Checksums(Dataset[Any]):
        def __init__(self) -> None:
            self._encoded = bytes(32 << 10)

        def __len__(self) -> int:
            return _SAMPLES

        def __getitem__(self, index: int) -> int:
            return zlib.crc32(self._encoded, index)

    data, threads = Checksums(), torch.get_num_threads()
    loaders: tuple[Any, Any] = (
        make_loader(data, batch_size=_BATCH_SIZE, shuffle=True),
        DataLoader(data, batch_size=_BATCH_SIZE, shuffle=True),
    )
    times: tuple[list[float], list[float]] = ([], [])
    torch.set_num_threads(1)
    for turn in range(_ROUNDS):
        for which in (0, 1) if turn % 2 else (1, 0):  # who comes second finds the caches filled by the other
            start = time.thread_time()
            _go_through(loaders[which])
            times[which].append(time.thread_time() - start)
    torch.set_num_threads(threads)
    what = f"loader with a position, {_SAMPLES // _BATCH_SIZE} batches"
    ours, other = (Times(tuple(values)) for values in times)
    return Row(what=what, ours=ours, other=other, than="torch's DataLoader", goal=1.01)


def _prefetch() -> Row:
    """Let loading and computing take equally long, as for as long as nothing is hidden."""
    from helpers.training import prefetch

    def loading() -> Iterator[int]:
        for number in range(_STEPS):
            time.sleep(_STEP_S)
            yield number

    def ours() -> None:
        for _ in prefetch(loading(), "cpu"):
            time.sleep(_STEP_S)

    times = interleave({"ours": ours, "loading": lambda: _go_through(loading())}, rounds=3)
    what = f"prefetch, loading and computing {_STEP_S * 1e3:g} ms"
    return Row(what=what, ours=times["ours"], other=times["loading"], than="the larger of both", goal=1.08)


def _go_through(batches: Any) -> None:
    for _ in batches:
        pass
