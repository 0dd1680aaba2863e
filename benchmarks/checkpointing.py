"""What saving and loading cost beside torch and its distributed checkpoints, and which damage is seen.

Stall and throughput are those of 256 MiB, damage that of 8 MiB. Loads are cold (the page cache is dropped) and
touch every byte. A stall counts until the state may be changed again.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import statistics
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row, Times, interleave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

_MIB = 1 << 20
_ROUNDS = 7
_FLIPS = 1000
_PEER_FLIPS = 200
_KILLS = 200
_SIGNALS = 200


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of the report that is no ratio of times.

    Args:
        what: What is measured.
        shown: The number with its unit.
        ratio: The number by what is allowed.
        goal: The largest that it may be; None where there is no goal.
    """

    what: str
    shown: str
    ratio: float
    goal: float | None

    def __str__(self) -> str:
        verdict = "" if self.goal is None else f"  {'met' if self.ratio <= self.goal else 'MISSED'}"
        return f"{self.what:42s} {self.shown}{verdict}"


def rows() -> Iterator[Row | Figure]:
    """Measure in a folder of their own; the temporary folder should be on the disk that is of interest."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        folder = Path(name)
        for measure in (_saving, _loading, _step, _signals, _flips, _kills):
            (folder / "work").mkdir()
            yield from measure(folder / "work")
            shutil.rmtree(folder / "work")


def _saving(folder: Path) -> Iterator[Row]:  # noqa: PLR0915 -- the alternatives stand side by side
    """Time the stall and the whole of a save, each alternative once a round."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    from helpers.training import Checkpointer

    state = _state(256 * _MIB)
    checkpoint = Checkpointer(state, folder=folder / "ours", keep=1)
    raw = state["x0"].new_zeros(256 * _MIB, dtype=torch.uint8).numpy()
    stager = DefaultStager(StagingOptions(False, False, False, False))
    stalls: dict[str, list[float]] = {name: [] for name in ("ours", "torch.save", "DCP", "memcpy")}
    wholes: dict[str, list[float]] = {name: [] for name in ("ours", "raw")}
    target = {name: torch.empty_like(tensor) for name, tensor in state.items()}

    def ours() -> None:
        checkpoint.step()
        begin = time.perf_counter()
        checkpoint.save()
        stalls["ours"].append(time.perf_counter() - begin)
        checkpoint.wait()
        wholes["ours"].append(time.perf_counter() - begin)

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

    def raw_write() -> None:
        begin = time.perf_counter()
        with (folder / "raw").open("wb", buffering=0) as file:
            for start in range(0, len(raw), 16 * _MIB):
                file.write(raw[start : start + 16 * _MIB])
            os.fsync(file.fileno())
        wholes["raw"].append(time.perf_counter() - begin)

    interleave(
        {"ours": ours, "memcpy": memcpy, "torch.save": torch_save, "DCP": distributed_checkpoint, "raw": raw_write},
        rounds=_ROUNDS,
    )
    stall = {name: Times(tuple(values[1:])) for name, values in stalls.items()}
    whole = {name: Times(tuple(values[1:])) for name, values in wholes.items()}
    first = Times((stalls["ours"][0],))
    what = "stall of a save, 256 MiB"
    yield Row(what=what, ours=stall["ours"], other=stall["torch.save"], than="torch.save + fsync", goal=0.1)
    yield Row(what=what, ours=stall["ours"], other=stall["DCP"], than="DCP, persistent stager", goal=1.1)
    yield Row(what=what, ours=stall["ours"], other=stall["memcpy"], than="a bare copy", goal=2.0)
    yield Row(what="stall of the first save", ours=first, other=stall["ours"], than="a later one", goal=None)
    what = "save until durable, 256 MiB"
    yield Row(what=what, ours=whole["ours"], other=whole["raw"], than="raw write + fsync", goal=None)
    pairs = zip(whole["ours"].values, stall["ours"].values, strict=True)
    beside = Times(tuple(all_ - stalled for all_, stalled in pairs))
    what = "the part of it beside training"
    yield Row(what=what, ours=beside, other=whole["raw"], than="raw write + fsync", goal=1 / 0.85)


def _loading(folder: Path) -> Iterator[Row]:
    from safetensors.torch import load_file

    from helpers.training import Checkpointer, tensor_file

    checkpoint = Checkpointer(_state(256 * _MIB), folder=folder)
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

    checkpoint = Checkpointer(_state(_MIB), folder=folder)
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
        for _ in range(_SIGNALS):
            time.sleep(0.01)
            stop._request = None  # noqa: SLF001 -- a process is asked once; here again and again
            stop._requested.clear()  # noqa: SLF001
            begin = time.time()
            os.kill(os.getpid(), signal.SIGUSR2)
            stop.wait_for_stop(10)
            request = stop.stop_request()
            delays.append(10.0 if request is None else request.time - begin)
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


def _flips(folder: Path) -> Iterator[Figure]:
    """Flip single bits anywhere in what was saved, and look whether what is loaded is what was saved."""
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file, save_file

    from helpers.training import Checkpointer
    from helpers.training.manifest import check_whole

    state = _state(8 * _MIB)
    checkpoint = Checkpointer(dict(state), folder=folder / "ours")
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    torch.save(state, folder / "torch.pt")
    save_file(state, folder / "state.safetensors")
    dcp.save(state, checkpoint_id=folder / "dcp", no_dist=True)
    empty = {name: torch.zeros_like(tensor) for name, tensor in state.items()}

    def load_dcp() -> dict[str, Any]:
        dcp.load(empty, checkpoint_id=folder / "dcp", no_dist=True)
        return empty

    step = next((folder / "ours").glob("step-*"))
    peers: dict[str, tuple[Path, int, Callable[[], Any]]] = {
        "helpers": (step, _FLIPS, lambda: (check_whole(step), Checkpointer.load(step))[1]),  # as restoring does
        "torch.load": (folder / "torch.pt", _PEER_FLIPS, lambda: torch.load(folder / "torch.pt")),
        "safetensors": (
            folder / "state.safetensors",
            _PEER_FLIPS,
            lambda: load_file(folder / "state.safetensors"),
        ),
        "DCP": (folder / "dcp", _PEER_FLIPS, load_dcp),
    }
    for name, (place, count, load) in peers.items():
        wrong, harmless = _flip(place, count, load, state)
        shown = f"{count - wrong - harmless} of {count} found, {wrong} loaded as wrong data, {harmless} without effect"
        goal = 0 if name == "helpers" else None
        ratio = (count - wrong - harmless) / count
        yield Figure(what=f"flipped bits, {name}", shown=shown, ratio=1 - ratio, goal=goal)


def _flip(place: Path, count: int, load: Callable[[], Any], state: dict[str, Any]) -> tuple[int, int]:
    import torch

    chance = random.Random(1)  # noqa: S311 -- which bits does not matter
    files = [place] if place.is_file() else [path for path in sorted(place.rglob("*")) if path.is_file()]
    wrong = harmless = 0
    for number in range(count):
        file = max(files, key=lambda path: path.stat().st_size) if number % 4 else chance.choice(files)
        position, bit = chance.randrange(file.stat().st_size), 1 << chance.randrange(8)
        _xor(file, position, bit)
        try:
            loaded = load()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001, S110 -- found; DCP's own error is no Exception
            pass
        else:
            same = loaded.keys() == state.keys() and all(torch.equal(loaded[name], state[name]) for name in state)
            wrong += not same
            harmless += same
        _xor(file, position, bit)
    return wrong, harmless


def _kills(folder: Path) -> Iterator[Figure]:
    """Kill a process that saves without a pause, at random moments; what is there must load and be the newest."""
    import torch

    from helpers.training import Checkpointer

    torch.set_num_threads(1)  # a forked process has none of torch's threads
    chance = random.Random(2)  # noqa: S311 -- when does not matter
    recovered, before = 0, 0
    for _ in range(_KILLS):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            _save_for_ever(folder, writer)
        os.close(writer)
        if not os.read(reader, 1):  # it saves from now on
            raise RuntimeError("the process that saves has ended by itself")
        time.sleep(chance.uniform(0, 0.15))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(reader)
        state = {"x": torch.zeros(2 * _MIB), "n": 0}
        (folder / "lease.json").unlink(missing_ok=True)
        step = Checkpointer(state, folder=folder).restore()
        (folder / "lease.json").unlink()  # this process goes on living
        whole = bool((state["x"] == state["n"]).all()) and step == state["n"] and step >= before
        recovered += whole
        before = step
    shown = f"{recovered} of {_KILLS} recovered, the last at step {before}"
    yield Figure(what="kills while 8 MiB are saved", shown=shown, ratio=_KILLS - recovered, goal=0)


def _save_for_ever(folder: Path, writer: int) -> None:
    import torch

    from helpers.training import Checkpointer

    try:
        state: dict[str, Any] = {"x": torch.zeros(2 * _MIB), "n": 0}
        checkpoint = Checkpointer(state, folder=folder, save_every=1, keep=2)
        for step in checkpoint.steps(10**9):
            state["n"] = step + 1
            state["x"].fill_(step + 1)
            os.write(writer, b".")
    finally:
        os._exit(1)


def _state(size: int) -> dict[str, Any]:
    """Return tensors of ``size`` bytes together, like a model's and an optimizer's."""
    import torch

    torch.manual_seed(0)
    return {f"x{number}": torch.rand(size // 16 // 4) for number in range(16)}


def _timed_after(prepare: Callable[[], None], alternatives: dict[str, Callable[[], object]]) -> dict[str, Times]:
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for number in range(_ROUNDS + 1):
        for name, run in alternatives.items():
            prepare()
            begin = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - begin)
    return {name: Times(tuple(values)) for name, values in times.items()}


def _xor(file: Path, position: int, bit: int) -> None:
    with file.open("r+b", buffering=0) as opened:
        opened.seek(position)
        byte = opened.read(1)[0]
        opened.seek(position)
        opened.write(bytes([byte ^ bit]))


class _NoChecksum(contextlib.nullcontext[Any]):
    """Stands where the checksum stands, for a load that compares nothing."""

    def __enter__(self) -> Any:
        """Return itself."""
        return self

    def update(self, _data: object) -> None:
        """Do nothing."""

    def hexdigest(self) -> str:
        """Return what no checksum is."""
        return ""


@contextlib.contextmanager
def _without_checksums(module: Any) -> Iterator[None]:
    checksum, compare = module.Checksum, module._compare  # noqa: SLF001 -- what is left out is measured
    module.Checksum, module._compare = _NoChecksum, lambda *_: None  # noqa: SLF001
    try:
        yield
    finally:
        module.Checksum, module._compare = checksum, compare  # noqa: SLF001


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what is said of damaged checkpoints and of resuming out of the report."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield
