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


def load(path: Path, split: Split) -> TensorDataset:
    """Return one split of the images in ``path``.

    Returns:
        Pairs of an image, float32 (1, 8, 8) between 0 and 1, and its digit, int64 ().
    """
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    pixels, digits = table[:, :-1], table[:, -1].astype(np.int64)
    rows = deal(digits) == split
    images = torch.from_numpy(pixels[rows] / INK).reshape(-1, 1, SIDE, SIDE)
    return TensorDataset(images, torch.from_numpy(digits[rows]))


def deal(digits: np.ndarray) -> np.ndarray:
    """Return the split of each row: of every ten images of one digit, two are for the test and one to validate.

    No random numbers: the same image is in the same split for ever, and each split has each digit equally often.
    """
    turn = np.zeros(len(digits), dtype=int)
    for digit in range(CLASSES):
        of_digit = digits == digit
        turn[of_digit] = np.arange(of_digit.sum()) % 10
    return np.select([turn < 2, turn == 2], ["test", "validation"], "train")
