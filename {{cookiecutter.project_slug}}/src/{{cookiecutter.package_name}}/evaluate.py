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


def evaluate(run: Path, reports: Path, *, best: bool = False, data: Path = Config.data) -> float:
    """Judge the network of a run on the test images and return its accuracy.

    Args:
        run: The run's folder.
        reports: Where ``metrics.json`` and ``confusion_matrix.png`` go.
        best: Take the network that did best on the validation images, not the newest.
        data: The file of images.
    """
    device = get_device()
    model = DigitNet(Checkpointer.load(run, "width", best=best))
    model.load_state_dict(Checkpointer.load(run, "model", best=best))
    test = load(data, "test")
    confusion = confusion_matrix(predict(model.to(device), test, device), test.tensors[1])
    right = float(confusion.trace() / confusion.sum())

    reports.mkdir(parents=True, exist_ok=True)
    metrics = {"run": str(run), "best": best, "test_images": int(confusion.sum()), "test_accuracy": right}
    (reports / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    draw_confusion(confusion, reports / "confusion_matrix.png")
    return right


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


def draw_confusion(confusion: np.ndarray, path: Path) -> None:
    """Draw the confusion matrix, with its counts, into a file."""
    from matplotlib.figure import Figure  # takes a second to import; training does not need it

    figure = Figure(figsize=(6, 6), layout="constrained")  # without pyplot: no display, no global state
    axes = figure.add_subplot(xlabel="read as", ylabel="is", xticks=range(CLASSES), yticks=range(CLASSES))
    axes.imshow(confusion, cmap="Blues")
    for digit, counts in enumerate(confusion):
        for other, count in enumerate(counts):
            colour = "white" if count > confusion.max() / 2 else "black"
            axes.text(other, digit, str(count), ha="center", va="center", color=colour)
    figure.savefig(path, dpi=150)
