"""Train for a while in this job's processes, and tell how many images went through in a second."""

from __future__ import annotations

import platform
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from helpers.runtime.rank.thread_count import available_cpus
from helpers.training.data.loader import make_loader
from helpers.training.devices.device import get_device, name_gpu
from helpers.training.devices.precision import autocast, make_scaler, precision
from helpers.training.devices.threads import suggest_workers
from helpers.training.ranks.data_parallel import wrap
from helpers.training.ranks.distributed import distributed
from helpers.training.scaling.clocks import slowed_by
from helpers.training.scaling.images import Images
from helpers.training.scaling.models import make_resnet50, make_small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """What a model takes: images of ``size`` × ``size`` pixels, so many classes; how much at a time."""

    make: Callable[[], nn.Module]
    size: int
    classes: int
    batch: int
    iterations: int


_MODELS = {
    "resnet50": _Shape(make=make_resnet50, size=224, classes=1000, batch=128, iterations=20),
    "small": _Shape(make=make_small, size=32, classes=10, batch=32, iterations=50),
}


def measure(
    *,
    model: str | None,
    data: str,
    folder: str,
    batch: int | None,
    precision_asked: str | None,
    layout: str,
    workers: int | None,
    warmup: int,
    rounds: int,
    iterations: int | None,
) -> dict[str, Any]:
    """Train with synthetic data, and with real data where asked for, in rounds of iterations, after a warm-up.

    Args:
        model: ``"resnet50"`` or ``"small"``; None: the small one on a CPU, else ResNet-50.
        data: ``"synthetic"``, one batch that stays on the device; or ``"real"``, images that workers decode.
        folder: Of the images.
        batch: Images per step and process; None for what the model's figures are given for.
        precision_asked: As in :func:`helpers.training.precision`.
        layout: ``"channels_last"`` or ``"contiguous"``.
        workers: That read images, per process; None for what :func:`suggest_workers` returns.
        warmup: Iterations that are not timed.
        rounds: Rounds that are timed; their median counts.
        iterations: Per round; None for the model's own number.

    Returns:
        Facts for the report: the images in a second of all processes, the seconds of a round, and of each process its
        node, CPUs, card and what slowed its clocks.
    """
    with distributed():
        device = get_device()
        if device.type == "cpu":
            torch.set_num_threads(1)  # as many for one process as for many: what is compared is their number
        name = model or ("small" if device.type == "cpu" else "resnet50")
        shape = _MODELS[name]
        batch, iterations = batch or shape.batch, iterations or shape.iterations
        trainer = _Trainer.make(shape, precision_asked, layout)
        stays = trainer.synthetic(batch)
        synthetic = _time(lambda: trainer.step(*stays), warmup, rounds, iterations)
        workers = 0 if data == "synthetic" else suggest_workers() if workers is None else workers
        real = None
        if data == "real":
            batches = _real_batches(folder, shape, batch, workers, steps=warmup + rounds * iterations)
            real = _time(lambda: trainer.step(*next(batches)), warmup, rounds, iterations)
        ranks = _gather(_own_facts(device, workers))
        return {
            "model": name,
            "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
            "data": data,
            "batch": batch,
            "precision": precision(precision_asked),
            "layout": layout,
            "device": ranks[0]["device"],
            **_figures(synthetic, real, images=len(ranks) * batch * iterations),
            "ranks": ranks,
        }


def _figures(synthetic: list[float], real: list[float] | None, *, images: int) -> dict[str, Any]:
    """Return what the seconds of the rounds tell, of so many images each.

    Waiting for data is what a step takes less when its batch is there.
    """
    rounds = synthetic if real is None else real
    median_s = statistics.median(rounds)
    return {
        "images_per_s": images / median_s,
        "round_s": rounds,
        "data_wait": max(0.0, 1 - statistics.median(synthetic) / median_s),
    }


@dataclass(frozen=True, kw_only=True)
class _Trainer:
    """A model, and what one step of its training takes."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    shape: _Shape
    precision: str | None
    layout: torch.memory_format

    @classmethod
    def make(cls, shape: _Shape, asked: str | None, layout: str) -> _Trainer:
        """Make the model on this process's device."""
        torch.manual_seed(0)
        memory = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        model: nn.Module = shape.make().to(get_device(), memory_format=memory)  # type: ignore[call-overload]
        wrapped = wrap(model, exact_resume=False)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01, momentum=0.9)
        return cls(
            model=wrapped,
            optimizer=optimizer,
            scaler=make_scaler(asked),
            shape=shape,
            precision=asked,
            layout=memory,
        )

    def synthetic(self, batch: int) -> _Batch:
        """Return one batch that is on the device already: ``(batch, 3, size, size)`` and ``(batch,)``."""
        size = self.shape.size
        images = torch.randn(batch, 3, size, size).to(get_device(), memory_format=self.layout)
        return images, torch.randint(self.shape.classes, (batch,)).to(get_device())

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Train on one batch, wherever it is."""
        images = images.to(get_device(), memory_format=self.layout, non_blocking=True)
        labels = labels.to(get_device(), non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.precision):
            loss = nn.functional.cross_entropy(self.model(images), labels)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()


def _time(step: Callable[[], None], warmup: int, rounds: int, iterations: int) -> list[float]:
    """Return the seconds of each round, by the clock of this process: every step waits for the slowest one."""
    for _ in range(warmup):
        step()
    seconds = []
    for _ in range(rounds):
        _synchronize()
        begin = time.perf_counter()
        for _ in range(iterations):
            step()
        _synchronize()
        seconds.append(time.perf_counter() - begin)
    return seconds


def _synchronize() -> None:
    if get_device().type != "cpu":
        torch.accelerator.synchronize()
    if dist.is_initialized():
        dist.barrier()


def _real_batches(folder: str, shape: _Shape, batch: int, workers: int, *, steps: int) -> Iterator[_Batch]:
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    images = Images(folder, size=shape.size, classes=shape.classes, length=steps * batch * ranks)
    pinned = get_device().type == "cuda"
    return iter(
        make_loader(images, batch_size=batch, shuffle=True, num_workers=workers, drop_last=True, pin_memory=pinned)
    )


def _own_facts(device: torch.device, workers: int) -> dict[str, Any]:
    """Tell what makes a figure good or bad: where this process ran, on which CPUs and card."""
    return {
        "node": platform.node(),
        "cpus": sorted(available_cpus()),
        "workers": workers,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "card": name_gpu(device),
        "slowed_by": slowed_by(device),
    }


def _gather(facts: dict[str, Any]) -> list[dict[str, Any]]:
    if not dist.is_initialized():
        return [facts]
    ranks: list[dict[str, Any]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(ranks, facts)
    return ranks
