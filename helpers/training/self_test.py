"""Measure what training rests on, a step at a time: the device, its arithmetic, the network, a small training."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from helpers.errors import HelpersError
from helpers.runtime.current import GPUS_VARIABLE, current_run
from helpers.runtime.gpus.nvml import list_gpus
from helpers.runtime.rank.thread_count import available_cpus
from helpers.training.checkpoints.checkpointer import Checkpointer
from helpers.training.devices.device import get_device
from helpers.training.devices.precision import autocast, precision
from helpers.training.devices.threads import fix_threads
from helpers.training.ranks.distributed import distributed
from helpers.training.ranks.transport import bus_bandwidth, measure_all_reduce, two_digits

_SIZE = {"cpu": 1024}  # of a matrix that keeps the device busy for a moment; a GPU takes a larger one
_GPU_SIZE = 8192
_MULTIPLY_S = 0.5
_WRONG = 0.05  # relative to what is right; bf16 has 8 bits
_STEPS, _SAMPLES, _FEATURES = 60, 256, 16
_LEARNT = 0.5  # of the first loss must be gone
_MIB = 1024 * 1024


class SelfTestFailed(HelpersError, RuntimeError):
    """What was measured is not what it should be."""


def describe_device() -> str:
    """Return what this process trains on, in words.

    Raises:
        SelfTestFailed: If the driver shows GPUs, and this build of torch sees none.
        GpuNotSeen: If the job asked for a GPU and none is seen.
        GpuNotSupported: If this build of torch has no code for the card.
    """
    device = get_device()
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        memory, capability = f"{facts.total_memory / 1024**3:.0f} GiB", f"capability {facts.major}.{facts.minor}"
        return f"{facts.name}, {memory}, {capability}, CUDA {torch.version.cuda}, precision {precision()}"
    if device.type != "cpu":
        return f"{device}, precision {precision()}"
    there = list_gpus()
    if there and not torch.accelerator.is_available():
        raise SelfTestFailed(
            f"The driver shows {len(there)} GPU(s), and torch {torch.__version__} sees none.",
            hint="pip install --force-reinstall torch   (a build for the driver's CUDA: nvidia-smi names it)",
        )
    cpus, threads = len(available_cpus()), fix_threads([available_cpus()])
    return f"the CPU: {cpus} of them, {threads} threads; no GPU asked for, or none there"


def multiply() -> str:
    """Multiply two matrices again and again; return the TFLOP/s, in words.

    Counted as 2 n³ operations for matrices of n × n.

    Raises:
        SelfTestFailed: If the product is wrong.
    """
    device, size = get_device(), _SIZE.get(get_device().type, _GPU_SIZE)
    left, right = (torch.randn(size, size, device=device) for _ in range(2))
    with torch.no_grad(), autocast():
        product = left @ right  # the first one chooses its kernel
        _synchronize(device)
        begin, rounds = time.perf_counter(), 0
        while time.perf_counter() - begin < _MULTIPLY_S:
            product = left @ right
            _synchronize(device)
            rounds += 1
        seconds = (time.perf_counter() - begin) / rounds
    expected = left[:8].double() @ right.double() if device.type != "mps" else left[:8] @ right
    error = ((product[:8] - expected).abs().max() / expected.abs().max()).item()
    if not error < _WRONG:
        raise SelfTestFailed(
            f"The product of two {size} × {size} matrices on {device} is wrong by {error:.1%}.",
            hint="another node: submit(..., slurm={'exclude': 'NODE'}); and tell the administrators which it was",
        )
    return f"{2 * size**3 / seconds / 1e12:.3g} TFLOP/s ({precision()}, {size} × {size})"


def all_reduce() -> str:
    """Return the bandwidth of an all-reduce among the processes that this one is one of, in words.

    Raises:
        SelfTestFailed: If the sum is wrong.
        RendezvousFailed: If they do not find each other.
    """
    there, needed = torch.accelerator.device_count(), current_run().ranks.local_world_size
    os.environ[GPUS_VARIABLE] = str(needed) if there >= needed else "0"  # they cannot share one: then the CPU serves
    with distributed(timeout="60s"):
        device, ranks = get_device(), dist.get_world_size()
        if device.type != "cpu":
            torch.accelerator.set_device_index(device.index)
        total = torch.ones(1000, device=device)
        dist.all_reduce(total)
        if not bool((total == ranks).all()):
            raise SelfTestFailed(f"{ranks} processes added 1 each, and got {total[0].item()}.")
        size, seconds = measure_all_reduce(device)
        backend = "NCCL" if dist.get_backend() == "nccl" else dist.get_backend()
    speed = bus_bandwidth(size, seconds, ranks)
    return f"{speed:.3g} GB/s ({backend}, {ranks} processes, {size / _MIB:g} MiB in {two_digits(seconds * 1e3)} ms)"


def train() -> str:
    """Train a small model, save it, and load it into another; return the losses, in words.

    Raises:
        SelfTestFailed: If the loss does not fall, or what was loaded is not what was saved.
    """
    torch.manual_seed(0)
    device = get_device()
    inputs = torch.randn(_SAMPLES, _FEATURES).to(device)
    targets = inputs.sum(dim=1, keepdim=True).tanh()
    model = _model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with tempfile.TemporaryDirectory(prefix="helpers-doctor-") as folder:
        checkpoint = Checkpointer({"model": model, "optimizer": optimizer}, folder=folder)
        losses = []
        for _ in checkpoint.steps(_STEPS):
            with autocast():
                loss = nn.functional.mse_loss(model(inputs).float(), targets)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
            checkpoint.step()
        checkpoint.save()
        checkpoint.wait()
        again = _model().to(device)
        again.load_state_dict(Checkpointer.load(Path(folder), "model"))
    if not losses[-1] < _LEARNT * losses[0]:
        raise SelfTestFailed(
            f"The loss of a small model went from {losses[0]:.3g} to {losses[-1]:.3g}: it does not learn."
        )
    if not all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True)):
        raise SelfTestFailed("What was loaded from a checkpoint is not what was saved.", hint="df -h; helpers storage")
    return f"loss {losses[0]:.3g} → {losses[-1]:.2g} in {_STEPS} steps; checkpoint saved and restored"


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(_FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()
