"""Judge a network: its accuracy, and which digits it takes for which."""

import json
from pathlib import Path

import numpy as np
import torch
from helpers.training import Checkpointer, get_device
from torch import nn
from torch.utils.data import TensorDataset

from .config import Config
from .data import CLASSES, load
from .model import DigitNet
from .report import write_report


def evaluate(run: Path, reports: Path, *, best: bool = False, data: Path = Config.data) -> float:
    """Judge the network of a run on the test images and return its accuracy.

    Args:
        run: The run's folder.
        reports: Where the figures, ``metrics.json`` and ``model_card.md`` go.
        best: Take the network that did best on the validation images, not the newest.
        data: The file of images.
    """
    device = get_device()
    model = DigitNet(Checkpointer.load(run, "width", best=best))
    model.load_state_dict(Checkpointer.load(run, "model", best=best))
    confusion = judge(model.to(device), load(data, "test"), device)
    final = run / "final.json"
    config = json.loads(final.read_text())["config"] if final.exists() else {}
    write_report(run, reports, confusion, {"run": str(run), "best": best, "config": config})
    return float(confusion.trace() / confusion.sum())


def judge(model: nn.Module, dataset: TensorDataset, device: torch.device) -> np.ndarray:
    """Return how often each digit of ``dataset`` (row) is taken for each (column), (10, 10)."""
    return confusion_matrix(predict(model, dataset, device), dataset.tensors[1])


def predict(model: nn.Module, dataset: TensorDataset, device: torch.device) -> torch.Tensor:
    """Return the most likely digit for each image of ``dataset``, int64 (images,), on the CPU."""
    model.eval()
    with torch.no_grad():
        return model(dataset.tensors[0].to(device)).argmax(dim=1).cpu()


def accuracy(model: nn.Module, dataset: TensorDataset, device: torch.device) -> float:
    """Return the share of ``dataset`` that ``model`` reads right.

    Every process looks at all of it, and so comes to the same number. That is fine for a few hundred images; for
    more, let each take its share, and average with ``helpers.training.all_mean``.
    """
    return (predict(model, dataset, device) == dataset.tensors[1]).float().mean().item()


def confusion_matrix(predicted: torch.Tensor, digits: torch.Tensor) -> np.ndarray:
    """Return how often each digit (row) was taken for each (column), (10, 10)."""
    pairs = digits * CLASSES + predicted
    return torch.bincount(pairs, minlength=CLASSES**2).reshape(CLASSES, CLASSES).numpy()
