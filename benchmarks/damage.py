"""Which damage to a checkpoint of 8 MiB is seen, beside torch, safetensors and distributed checkpoints."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

from benchmarks.checkpointing import MIB, each_in_a_folder, make_state
from benchmarks.timing import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.timing import Row

_FLIPS = 1000
_PEER_FLIPS = 200
_KILLS = 200


def rows() -> Iterator[Row | Figure]:
    """Flip bits, and kill what saves."""
    return each_in_a_folder(_flips, _kills)


def _flips(folder: Path) -> Iterator[Figure]:
    """Flip single bits anywhere in what was saved, and look whether what is loaded is what was saved."""
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file, save_file

    from helpers.training import Checkpointer
    from helpers.training.checkpoints.manifest import check_whole

    state = make_state(8 * MIB)
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
        state = {"x": torch.zeros(2 * MIB), "n": 0}
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
        state: dict[str, Any] = {"x": torch.zeros(2 * MIB), "n": 0}
        checkpoint = Checkpointer(state, folder=folder, save_every=1, keep=2)
        for step in checkpoint.steps(10**9):
            state["n"] = step + 1
            state["x"].fill_(step + 1)
            os.write(writer, b".")
    finally:
        os._exit(1)


def _xor(file: Path, position: int, bit: int) -> None:
    with file.open("r+b", buffering=0) as opened:
        opened.seek(position)
        byte = opened.read(1)[0]
        opened.seek(position)
        opened.write(bytes([byte ^ bit]))
