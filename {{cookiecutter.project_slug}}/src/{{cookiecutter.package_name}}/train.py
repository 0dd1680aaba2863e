"""Train the network; the same function runs on a laptop, on one GPU and on many."""

import json
import sys
from dataclasses import asdict

import numpy as np
import torch
from helpers import current_run
from helpers.training import Checkpointer, distributed, get_device, is_main, make_loader, wrap
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from .config import Config
from .data import load
from .evaluate import accuracy, judge
from .model import DigitNet
from .report import write_report


def train(config: Config) -> float:
    """Train a network and return the share of the test images that it reads right.

    A checkpoint is saved every ten minutes and when the job is asked to stop; called again by the same job, it goes
    on where it was.
    """
    with distributed():  # where there are several processes, they find each other here
        device = get_device()
        torch.manual_seed(config.seed)

        training = load(config.data, "train")
        validation = load(config.data, "validation")
        loader = make_loader(training, batch_size=config.batch_size, shuffle=True, seed=config.seed)
        model = wrap(DigitNet(config.width).to(device))  # several processes average their gradients
        optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)

        # All that training changes belongs in the checkpoint; "width" is there to build the network again.
        state = {"model": model, "optimizer": optimizer, "loader": loader, "width": config.width}
        checkpoint = Checkpointer(state, save_every="10min")

        for epoch in checkpoint.epochs(config.epochs):
            model.train()
            title = f"epoch {epoch + 1}/{config.epochs}"
            loss = torch.tensor(torch.nan)  # a job that was stopped after an epoch's last step has none left here
            silent = None if is_main() else True  # None: no bar where stderr is a file, such as a job's log
            for images, digits in tqdm(loader, title, leave=False, mininterval=0.5, disable=silent):
                loss = cross_entropy(model(images.to(device)), digits.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                checkpoint.step()

            right = accuracy(model, validation, device)
            checkpoint.log(loss=loss, accuracy=right)  # metrics.jsonl, from which the learning curve is drawn
            checkpoint.keep_best(accuracy=right)
            if is_main():
                line = f"{title}: loss {loss.item():.4f}, validation accuracy {right:.4f}"
                tqdm.write(line, file=sys.stderr)  # where the bar goes, so that the two keep their order

        confusion = judge(model, load(config.data, "test"), device)
        if is_main():
            write_summary(config, confusion)
        return float(confusion.trace() / confusion.sum())


def write_summary(config: Config, confusion: np.ndarray) -> None:
    """Write how the run went, and with which settings, into its folder, if it has one: a file and a few pictures."""
    folder = current_run().folder
    if folder is not None:
        summary = {"test_accuracy": float(confusion.trace() / confusion.sum()), "config": asdict(config)}
        (folder / "final.json").write_text(json.dumps(summary, indent=2, default=str) + "\n")
        write_report(folder, folder / "reports", confusion, {"run": str(folder), "config": asdict(config)})
