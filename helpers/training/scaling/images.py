"""Read images as a training does: decoded, cut and turned by the loader's workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from helpers.errors import InvalidRequest

SUFFIXES = (".jpg", ".jpeg", ".png", ".npz")


class Images(Dataset[tuple[torch.Tensor, int]]):
    """The images of a folder and of those below it, again and again up to a length.

    JPEG and PNG are decoded by Pillow; of an ``.npz`` file the array ``image`` is unpacked, ``(height, width, 3)`` of
    uint8. Each is cut to a random square, turned or not, and becomes a tensor of ``(3, size, size)`` around 0.

    Args:
        folder: Where they are.
        size: Height and width of what is trained on, in pixels.
        classes: The labels are numbers below it.
        length: How many samples there seem to be.

    Raises:
        InvalidRequest: If there are none.
    """

    def __init__(self, folder: str | Path, *, size: int, classes: int, length: int) -> None:
        self._paths = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in SUFFIXES)
        self._size, self._classes, self._length = size, classes, length
        if not self._paths:
            raise InvalidRequest(
                f"There are no images ({', '.join(SUFFIXES)}) in {folder}.", hint="--folder /path/to/images"
            )

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return one image, ``(3, size, size)``, and its label."""
        image = read_image(self._paths[index % len(self._paths)], at_least=self._size)
        top, left = (int(torch.randint(side - self._size + 1, ())) for side in image.shape[:2])
        cut = image[top : top + self._size, left : left + self._size]
        turned = cut[:, ::-1] if torch.rand(()) < 0.5 else cut  # noqa: PLR2004 -- one half
        tensor = torch.from_numpy(np.ascontiguousarray(turned)).permute(2, 0, 1).float().div_(127.5).sub_(1)
        return tensor, index % self._classes


def read_image(path: Path, *, at_least: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return ``(height, width, 3)`` of uint8, no side shorter than ``at_least`` pixels."""
    if path.suffix == ".npz":
        image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = np.load(path)["image"]
    else:
        from PIL import Image

        with Image.open(path) as opened:
            image = np.asarray(opened.convert("RGB"))
    short = [max(0, at_least - side) for side in image.shape[:2]]
    return np.pad(image, ((0, short[0]), (0, short[1]), (0, 0)), mode="wrap") if any(short) else image
