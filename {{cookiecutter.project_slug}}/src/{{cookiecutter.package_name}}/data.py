"""Read the images and deal them out to training, validation and test."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch.utils.data import TensorDataset

Split = Literal["train", "validation", "test"]

CLASSES = 10
SIDE = 8  # pixels
INK = 16  # the darkest pixel


def prepare(raw: Path, prepared: Path) -> int:
    """Read the raw file once, and write what training needs where it is quick to load; return the number of images.

    It takes no time for these few; put here whatever does for yours: decoding, cleaning, resizing.
    """
    images, digits = read(raw)
    prepared.parent.mkdir(parents=True, exist_ok=True)
    part = prepared.with_suffix(".part")  # a file that is there is whole
    with part.open("wb") as file:
        np.savez_compressed(file, images=images, digits=digits)
    part.replace(prepared)
    return len(digits)


def load(path: Path, split: Split) -> TensorDataset:
    """Return one split of the images in ``path``, the raw file or the prepared one.

    Returns:
        Pairs of an image, float32 (1, 8, 8) between 0 and 1, and its digit, int64 ().
    """
    images, digits = read(path)
    rows = deal(digits) == split
    return TensorDataset(torch.from_numpy(images[rows]), torch.from_numpy(digits[rows]))


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return all images, float32 (images, 1, 8, 8) between 0 and 1, and their digits, int64 (images,)."""
    if path.suffix == ".npz":
        with np.load(path) as prepared:
            return prepared["images"], prepared["digits"]
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return (table[:, :-1] / INK).reshape(-1, 1, SIDE, SIDE), table[:, -1].astype(np.int64)


def deal(digits: np.ndarray) -> np.ndarray:
    """Return the split of each row: of every ten images of one digit, two are for the test and one to validate.

    No random numbers: the same image is in the same split for ever, and each split has each digit equally often.
    """
    turn = np.zeros(len(digits), dtype=int)
    for digit in range(CLASSES):
        of_digit = digits == digit
        turn[of_digit] = np.arange(of_digit.sum()) % 10
    return np.select([turn < 2, turn == 2], ["test", "validation"], "train")
