"""Train a small model with everything random on; run by the tests as one of several processes.

Usage: train.py RESULTS [--epochs N] [--workers N] [--save-every N|DURATION] [--die-at STEP] [--hidden N] …
Each process appends a line per step to ``RESULTS/steps-<rank>.jsonl`` and, at the end, writes the checksum
of its weights to ``RESULTS/end-<rank>.json``. ``LeaveForRequeue`` ends it with 0, as the runner does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from helpers.runtime.attempt.resumption import newest_step
from helpers.runtime.current import current_run
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.stop import LeaveForRequeue, listen_for_stop, request_stop
from helpers.training import Checkpointer, distributed, get_device, make_loader, wrap
from helpers.training.checkpoints import stop_agreement


class Noisy(Dataset[Any]):
    """Samples with an augmentation that draws from every generator; the first column is the sample's number."""

    def __init__(self, size: int) -> None:
        self._x = torch.randn(size, 16, generator=torch.Generator().manual_seed(5))

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        noise = torch.randn(16) + random.random() + float(np.random.rand())  # noqa: NPY002, S311 -- what users do
        x = self._x[index]
        return index, x + 0.1 * noise, x.sum().reshape(1)


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--save-every", default="1h")
    parser.add_argument("--term-at", type=int, default=0)
    parser.add_argument("--term-rank", type=int, default=0)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--once-saved", type=int, default=0)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--stop-in-evaluation", type=int, default=-1)
    parser.add_argument("--raise-at", type=int, default=0)
    parser.add_argument("--answer-s", type=float, default=20.0)
    parser.add_argument("--plain-ddp", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--stop-at", type=int, default=0)
    return parser.parse_args(arguments)


def checksum(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.removeprefix("module.").encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def train(options: argparse.Namespace) -> None:
    rank = current_run().rank
    torch.manual_seed(1)
    random.seed(2 + rank)
    np.random.seed(3 + rank)  # noqa: NPY002 -- what users do
    model = nn.Sequential(
        nn.Linear(16, options.hidden),
        nn.BatchNorm1d(options.hidden),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(options.hidden, options.hidden),
        nn.ReLU(),
        nn.Linear(options.hidden, 1),
    )
    model = wrap(model.to(get_device()), exact_resume=not options.plain_ddp)
    torch.manual_seed(100 + rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=2000)
    loader = make_loader(
        Noisy(options.samples),
        batch_size=options.batch_size,
        shuffle=True,
        seed=7,
        num_workers=options.workers,
    )
    save_every = int(options.save_every) if options.save_every.isdigit() else options.save_every
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader, "seen": 0}
    checkpoint = Checkpointer(state, save_every=save_every, folder=options.folder)
    step = checkpoint.restore()
    with (options.results / f"steps-{rank}.jsonl").open("a") as log:
        for epoch in checkpoint.epochs(options.epochs):
            model.train()
            for index, x, y in loader:
                optimizer.zero_grad()
                loss = (model(x) - y).square().mean()
                loss.backward()
                optimizer.step()
                scheduler.step()
                step += 1
                state["seen"] += len(index)
                line = {"step": step, "epoch": epoch, "ids": index.tolist(), "loss": loss.item()}
                log.write(json.dumps(line) + "\n")
                log.flush()
                time.sleep(options.step_s)
                if step == options.term_at and rank == options.term_rank:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(0.05)
                if step == options.stop_at:
                    request_stop("SIGTERM")
                if step == options.raise_at:
                    raise KeyboardInterrupt
                if step == options.kill_at:
                    while (newest_step(RunFolder(options.results)) or 0) < options.once_saved:
                        time.sleep(0.05)
                    os.kill(os.getpid(), signal.SIGKILL)
                checkpoint.step()
            if epoch == options.stop_in_evaluation:
                request_stop("SIGTERM")
            checkpoint.keep_best(loss=loss.item())
    end = {"weights": checksum(model), "step": step, "seen": state["seen"], "threads": torch.get_num_threads()}
    (options.results / f"end-{rank}.json").write_text(json.dumps(end))


def main() -> None:
    listen_for_stop()
    options = read_arguments()
    stop_agreement.ANSWER_S = options.answer_s
    try:
        with distributed(timeout="60s"):
            train(options)
    except LeaveForRequeue:
        (options.results / f"left-{current_run().rank}").write_text("")


if __name__ == "__main__":
    main()
