"""What a step costs among several ranks when nothing is due, and how soon one that waits for the others sees a signal.

The time is that inside our calls: four processes on a machine with fewer cores hold each other up in all else.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.signals import measure_delays
from benchmarks.timing import Figure
from helpers.runtime.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RANKS = 4
_STEPS = 50
_STEP_S = 0.1
_SIGNALS = 200
_PATIENCE_S = 120.0


def rows() -> Iterator[Figure]:
    """Measure in processes that meet as those of a job do."""
    yield from _steps()
    yield _signals()


def _steps() -> Iterator[Figure]:
    each = _in_ranks(_RANKS, _train_slowly)
    inside = [rank["inside_s"] / _STEP_S for rank in each]
    beside = [rank["thread_s"] / _STEPS / _STEP_S for rank in each]
    share, what = statistics.median(inside), f"step() of {_RANKS} ranks, nothing due"
    shown = f"{share:.4%} of a step of 100 ms ({min(inside):.4%}–{max(inside):.4%} by rank), allowed 0.1 %"
    yield Figure(what=what, shown=shown, ratio=share / 0.001, goal=1)
    shown = f"{statistics.median(beside):.4%} of a core ({min(beside):.4%}–{max(beside):.4%} by rank)"
    yield Figure(what="the thread that agrees, beside training", shown=shown, ratio=0, goal=None)


def _signals() -> Figure:
    delays = sorted(_in_ranks(2, _block)[1]["delays_s"])
    p99 = delays[int(len(delays) * 0.99)]
    shown = f"p99 {p99 * 1e3:.2f} ms, median {statistics.median(delays) * 1e3:.2f} ms, allowed 10 ms"
    return Figure(what="signal to recorded intent, in an all_reduce", shown=shown, ratio=p99 / 10e-3, goal=1)


def _train_slowly(folder: Path, _rank: int) -> dict[str, Any]:
    """Take steps of 100 ms; return the median of the time in ``step()`` and the agreeing thread's time on a CPU."""
    import torch

    from helpers.training import Checkpointer

    checkpoint = Checkpointer({"x": torch.zeros(10)}, folder=folder / "checkpoints")
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "helpers-agreement")
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    begin, inside = time.clock_gettime(clock), []
    for _ in range(_STEPS):
        time.sleep(_STEP_S)
        before = time.perf_counter()
        checkpoint.step()
        inside.append(time.perf_counter() - before)
    return {"inside_s": statistics.median(inside), "thread_s": time.clock_gettime(clock) - begin}


def _block(folder: Path, rank: int) -> dict[str, Any]:
    """Have rank 1 wait in a collective for rank 0, while signals come."""
    import torch
    import torch.distributed as dist

    from helpers.runtime import stop

    delays: list[float] = []
    over = folder / "over"

    def send() -> None:
        time.sleep(1)  # until the main thread is in the collective
        delays.extend(measure_delays(_SIGNALS))
        over.touch()

    if rank:
        stop.listen_for_stop()
        threading.Thread(target=send, daemon=True).start()
    while not rank and not over.exists():
        time.sleep(0.05)
    dist.all_reduce(torch.ones(1))
    return {"delays_s": delays}


def _in_ranks(count: int, work: Callable[[Path, int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what ``work`` returns in each of ``count`` processes of one run."""
    with tempfile.TemporaryDirectory() as name:
        run = RunFolder(Path(name))
        (run.path / "logs").mkdir()
        attempt = run.begin_attempt()
        spawn = multiprocessing.get_context("spawn")
        ranks = [spawn.Process(target=_be_rank, args=(work, name, attempt, rank, count)) for rank in range(count)]
        for process in ranks:
            process.start()
        try:
            for process in ranks:
                process.join(_PATIENCE_S)
            return [json.loads((run.path / f"{rank}.json").read_text()) for rank in range(count)]
        finally:
            for process in ranks:
                process.kill()


def _be_rank(work: Callable[[Path, int], dict[str, Any]], folder: str, attempt: int, rank: int, count: int) -> None:
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    os.environ |= {name: str(number) for name, number in numbers.items()}
    os.environ |= {"HELPERS_RUN": folder, "HELPERS_ATTEMPT": str(attempt), "OMP_NUM_THREADS": "1"}
    from helpers.training import distributed

    with distributed():
        found = work(Path(folder), rank)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
