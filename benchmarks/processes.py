"""What several processes cost with this library beside plain torch under torchrun: imports, start, each step.

Ranks of one machine: more processes than it has cores hold each other up, with and without us; so alternatives take
turns, and the time inside our calls is measured by itself.

Measure on an idle machine. Linux shares the CPU among sessions first (sched_autogroup): torchrun gives each rank one of
its own, the ranks of a local job share one, and beside other people's work that alone made a start three times as long.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Figure, Row, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

_IMPORT_ROUNDS = 15
_RANKS = 4
_STEPS = 100
_STEP_S = 0.02
_LOOP_ROUNDS = 3
_STARTING = 8
_START_ROUNDS = 5
_PATIENCE_S = 300.0
_PROGRAM = "benchmarks.processes"
_IMPORT_S = 0.05


def rows() -> Iterator[Row | Figure]:
    """Measure in a folder of their own."""
    yield _imports()
    with tempfile.TemporaryDirectory() as name:
        yield from _steps(Path(name))
        yield _start(Path(name))


def _imports() -> Figure:
    """Time the imports alone, in interpreters that have torch: the difference of two that load it is mostly noise."""
    code = (
        "import time, torch; begin = time.perf_counter(); "
        "from helpers.training import distributed, get_device; print(time.perf_counter() - begin)"
    )
    run = functools.partial(subprocess.run, [sys.executable, "-c", code], check=True, capture_output=True, text=True)
    times = Times(tuple(float(run().stdout) for _ in range(_IMPORT_ROUNDS + 1))[1:])  # the first one compiles
    shown = f"{times} on top of import torch, allowed {_IMPORT_S * 1e3:.0f} ms"
    return Figure(what="import get_device and distributed", shown=shown, ratio=times.median / _IMPORT_S, goal=1)


def _steps(folder: Path) -> Iterator[Row | Figure]:
    """Run one loop of steps of 20 ms with us, through ``submit``, and with torch alone, under torchrun."""
    found: dict[str, list[list[dict[str, float]]]] = {"ours": [], "torchrun": []}
    for number in range(_LOOP_ROUNDS):
        found["ours"].append(_through_submit(train, folder / f"ours-{number}", _RANKS))
        found["torchrun"].append(_under_torchrun(train_plainly, folder / f"torchrun-{number}", _RANKS))
    inside = [rank["inside_s"] / _STEP_S for ranks in found["ours"] for rank in ranks]
    share, what = statistics.median(inside), f"our calls in a step of 20 ms, {_RANKS} ranks"
    shown = f"{share:.3%} of the step ({min(inside):.3%}–{max(inside):.3%} by rank and round), allowed 1 %"
    yield Figure(what=what, shown=shown, ratio=share / 0.01, goal=1)
    step = {name: Times(tuple(ranks[0]["step_s"] for ranks in each)) for name, each in found.items()}
    what = f"one step of that loop, {_RANKS} ranks, submit"
    yield Row(what=what, ours=step["ours"], other=step["torchrun"], than="plain torchrun", goal=None)


def _start(folder: Path) -> Row:
    """Time from the command to the first all-reduce of all ranks."""
    times: dict[str, list[float]] = {"ours": [], "torchrun": []}
    for number in range(_START_ROUNDS):
        for name, taken in times.items():
            work = folder / f"start-{name}-{number}"
            begin = time.time()
            if name == "ours":
                ranks = _through_submit(meet, work, _STARTING)
            else:
                ranks = _under_torchrun(meet_plainly, work, _STARTING)
            taken.append(max(rank["time"] for rank in ranks) - begin)
    ours, other = (Times(tuple(values)) for values in times.values())
    what = f"start of {_STARTING} ranks to the first all-reduce"
    return Row(what=what, ours=ours, other=other, than="torchrun", goal=1)


def train() -> dict[str, float]:
    """Take steps of 20 ms with this library; return the medians of a step and of the time inside our calls."""
    import torch

    from helpers.training import Checkpointer, autocast, distributed, get_device, is_main, wrap

    inside, steps = [], []
    with distributed():
        device = get_device()
        model = wrap(torch.nn.Linear(64, 64).to(device))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        checkpoint = Checkpointer({"model": model, "optimizer": optimizer})
        checkpoint.restore()
        for _ in range(_STEPS):
            begin = time.perf_counter()
            with autocast():
                entered = time.perf_counter()
                loss = model(torch.ones(4, 64, device=device)).sum()
                left = time.perf_counter()
            after = time.perf_counter()
            _go_on(loss, optimizer)
            called = time.perf_counter()
            is_main()
            checkpoint.step()
            end = time.perf_counter()
            inside.append(entered - begin + after - left + end - called)
            steps.append(end - begin)
    return {"inside_s": statistics.median(inside), "step_s": statistics.median(steps)}


def train_plainly() -> dict[str, float]:
    """Take the same steps with torch alone, as its tutorial for ``torchrun`` does."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = []
    for _ in range(_STEPS):
        begin = time.perf_counter()
        _go_on(model(torch.ones(4, 64)).sum(), optimizer)
        steps.append(time.perf_counter() - begin)
    dist.destroy_process_group()
    return {"step_s": statistics.median(steps)}


def _go_on(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Do what is left of a step; most of it asleep, for the ranks are more than the cores."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    time.sleep(_STEP_S)


def meet() -> dict[str, float]:
    """Return when the first all-reduce was done, with this library."""
    import torch
    import torch.distributed as dist

    from helpers.training import distributed

    with distributed():
        dist.all_reduce(torch.ones(1))
        return {"time": time.time()}


def meet_plainly() -> dict[str, float]:
    """Return the same with torch alone."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    end = time.time()
    dist.destroy_process_group()
    return {"time": end}


def _through_submit(function: Callable[[], dict[str, float]], folder: Path, ranks: int) -> list[dict[str, float]]:
    from helpers import submit

    os.environ["HELPERS_RUNS"] = str(folder)
    return submit(function, processes=ranks, cluster="local").results(_PATIENCE_S)


def _under_torchrun(function: Callable[[], dict[str, float]], folder: Path, ranks: int) -> list[dict[str, float]]:
    folder.mkdir()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    command = [*torchrun, "-m", _PROGRAM, function.__name__, str(folder)]
    subprocess.run(command, check=True, timeout=_PATIENCE_S, stderr=subprocess.DEVNULL)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


if __name__ == "__main__":  # one rank, started by torchrun
    found = {"train_plainly": train_plainly, "meet_plainly": meet_plainly}[sys.argv[1]]()
    Path(sys.argv[2], f"{os.environ['RANK']}.json").write_text(json.dumps(found))
