"""What saving and loading cost beside torch and its distributed checkpoints.

Stall and throughput are those of 256 MiB. Loads are cold (the page cache is dropped) and
touch every byte. A stall counts until the state may be changed again.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.signals import measure_delays
from benchmarks.timing import Figure, Row, Times, interleave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

MIB = 1 << 20
_ROUNDS = 7
_DISK_ROUNDS = 15  # a disk is less even than memory
_WARM_UP = 3  # until the first checkpoint has been removed
_SIGNALS = 200


def rows() -> Iterator[Row | Figure]:
    """Measure all of it."""
    return each_in_a_folder(_saving, _durable, _loading, _step, _signals)


def each_in_a_folder(*measures: Callable[[Path], Iterator[Row | Figure]]) -> Iterator[Row | Figure]:
    """Measure in a folder of their own; the temporary folder should be on the disk that is of interest."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        folder = Path(name)
        for measure in measures:
            (folder / "work").mkdir()
            yield from measure(folder / "work")
            shutil.rmtree(folder / "work")


def _saving(folder: Path) -> Iterator[Row]:
    """Time the stall of a save, each alternative once a round."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    from helpers.training import Checkpointer

    state = make_state(256 * MIB)
    checkpoint = Checkpointer(state, folder=folder / "ours", keep=2)
    checkpoint.step()
    time.sleep(1)  # in earnest the first save comes ten minutes after the first step
    stager = DefaultStager(StagingOptions(False, False, False, False))
    stalls: dict[str, list[float]] = {name: [] for name in ("ours", "torch.save", "DCP", "memcpy")}
    target = {name: torch.empty_like(tensor) for name, tensor in state.items()}

    def ours() -> None:
        checkpoint.step()
        begin = time.perf_counter()
        checkpoint.save()
        stalls["ours"].append(time.perf_counter() - begin)
        checkpoint.wait()

    def torch_save() -> None:
        begin = time.perf_counter()
        with (folder / "torch.pt").open("wb") as file:
            torch.save(state, file)
            os.fsync(file.fileno())
        stalls["torch.save"].append(time.perf_counter() - begin)

    def distributed_checkpoint() -> None:
        shutil.rmtree(folder / "dcp", ignore_errors=True)
        begin = time.perf_counter()
        answer = dcp.async_save(state, checkpoint_id=folder / "dcp", async_stager=stager, no_dist=True)
        staged = getattr(answer, "staging_completion", None)
        if staged is not None:
            staged.result()
        stalls["DCP"].append(time.perf_counter() - begin)
        getattr(answer, "upload_completion", answer).result()

    def memcpy() -> None:
        begin = time.perf_counter()
        for name, tensor in state.items():
            target[name].copy_(tensor)
        stalls["memcpy"].append(time.perf_counter() - begin)

    interleave(
        {"ours": ours, "memcpy": memcpy, "torch.save": torch_save, "DCP": distributed_checkpoint}, rounds=_ROUNDS
    )
    stall = {name: Times(tuple(values[1:])) for name, values in stalls.items()}
    first = Times((stalls["ours"][0],))
    what = "stall of a save, 256 MiB"
    yield Row(what=what, ours=stall["ours"], other=stall["torch.save"], than="torch.save + fsync", goal=0.1)
    yield Row(what=what, ours=stall["ours"], other=stall["DCP"], than="DCP, persistent stager", goal=1.1)
    yield Row(what=what, ours=stall["ours"], other=stall["memcpy"], than="a bare copy", goal=2.0)
    yield Row(what="stall of the first save", ours=first, other=stall["ours"], than="a later one", goal=None)


def _durable(folder: Path) -> Iterator[Row]:
    """Time what goes on beside the training, from the end of the stall to the checkpoint on the disk."""
    from helpers.training import Checkpointer

    state = make_state(256 * MIB)
    checkpoint = Checkpointer(state, folder=folder / "ours", keep=2)
    raw = bytearray(256 * MIB)
    times: dict[str, list[float]] = {name: [] for name in ("ours", "raw")}

    def ours() -> None:
        checkpoint.step()
        checkpoint.save()
        begin = time.perf_counter()
        checkpoint.wait()
        times["ours"].append(time.perf_counter() - begin)

    def raw_write() -> None:
        begin = time.perf_counter()
        with (folder / "raw").open("wb", buffering=0) as file, memoryview(raw) as bytes_:
            for start in range(0, len(bytes_), MIB):
                file.write(bytes_[start : start + MIB])
            os.fsync(file.fileno())
        times["raw"].append(time.perf_counter() - begin)

    interleave({"ours": ours, "raw": raw_write}, rounds=_DISK_ROUNDS, warm_up=_WARM_UP)
    durable, written = (Times(tuple(times[name][_WARM_UP:])) for name in ("ours", "raw"))
    what = "save until durable, beside training"
    yield Row(what=what, ours=durable, other=written, than="raw write + fsync", goal=1 / 0.85)


def _loading(folder: Path) -> Iterator[Row]:
    from safetensors.torch import load_file

    from helpers.training import Checkpointer
    from helpers.training.checkpoints import tensor_file

    checkpoint = Checkpointer(make_state(256 * MIB), folder=folder)
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    file = next(folder.glob("step-*/state.safetensors"))

    def drop() -> None:
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

    def unverified() -> None:
        with _without_checksums(tensor_file):
            Checkpointer.load(folder)

    def by_safetensors() -> list[torch.Tensor]:
        return [tensor.clone() for tensor in load_file(file).values()]

    times = _timed_after(
        drop,
        {"ours": lambda: Checkpointer.load(folder), "unverified": unverified, "safetensors": by_safetensors},
    )
    what = "verified load, 256 MiB, cold"
    yield Row(what=what, ours=times["ours"], other=times["unverified"], than="the same, unverified", goal=1.15)
    yield Row(what=what, ours=times["ours"], other=times["safetensors"], than="safetensors, copied", goal=1.15)


def _step(folder: Path) -> Iterator[Figure]:
    from helpers.training import Checkpointer

    checkpoint = Checkpointer(make_state(MIB), folder=folder)
    rounds = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        for _ in range(1000):
            checkpoint.step()
        rounds.append((time.perf_counter() - begin) / 1000)
    median = statistics.median(rounds)
    shown = f"{median * 1e6:.2f} µs ({min(rounds) * 1e6:.2f}–{max(rounds) * 1e6:.2f}), allowed 20 µs"
    yield Figure(what="step() when nothing is due", shown=shown, ratio=median / 20e-6, goal=1)


def _signals(_folder: Path) -> Iterator[Figure]:
    """Send signals while the main thread is in a long call of C++, where a Python handler would not run."""
    import torch

    from helpers.runtime import stop

    stop.listen_for_stop()
    delays: list[float] = []
    over = threading.Event()

    def send() -> None:
        delays.extend(measure_delays(_SIGNALS))
        over.set()

    threading.Thread(target=send, daemon=True).start()
    torch.set_num_threads(1)  # the signal's thread needs a CPU, too
    matrix = torch.rand(1500, 1500)
    while not over.is_set():
        torch.mm(matrix, matrix)
    p99 = sorted(delays)[int(len(delays) * 0.99)]
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    stop._request = None  # noqa: SLF001 -- and now nobody is asked
    shown = f"p99 {p99 * 1e3:.2f} ms, median {statistics.median(delays) * 1e3:.2f} ms, allowed 10 ms"
    yield Figure(what="signal to recorded intent, in a C++ call", shown=shown, ratio=p99 / 10e-3, goal=1)


def make_state(size: int) -> dict[str, Any]:
    """Return tensors of ``size`` bytes together, like a model's and an optimizer's."""
    import torch

    torch.manual_seed(0)
    return {f"x{number}": torch.rand(size // 16 // 4) for number in range(16)}


def _timed_after(prepare: Callable[[], None], alternatives: dict[str, Callable[[], object]]) -> dict[str, Times]:
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    names, chance = list(alternatives), random.Random(3)  # noqa: S311 -- what ran before leaves memory to the next
    for number in range(2 * _ROUNDS + 1):
        for name in chance.sample(names, len(names)):
            run = alternatives[name]
            prepare()
            begin = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - begin)
    return {name: Times(tuple(values)) for name, values in times.items()}


class _NoChecksum:
    """Stands where xxhash stands, for a load that compares nothing."""

    def update(self, _data: object) -> None:
        """Do nothing."""

    def hexdigest(self) -> str:
        """Return what no checksum is."""
        return ""


@contextlib.contextmanager
def _without_checksums(module: Any) -> Iterator[None]:
    hashes, compare = module.xxhash, module._compare  # noqa: SLF001 -- what is left out is measured
    without = SimpleNamespace(xxh3_128=_NoChecksum, xxh3_128_hexdigest=lambda _: "")
    module.xxhash, module._compare = without, lambda *_: None  # noqa: SLF001
    try:
        yield
    finally:
        module.xxhash, module._compare = hashes, compare  # noqa: SLF001


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what is said of damaged checkpoints and of resuming out of the report."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield
