"""Hold everything that decides how a run goes; a run with the same values gives the same weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one run.

    Args:
        epochs: How often the training images are gone through.
        batch_size: Images per step and process; four processes take four times as many a step.
        lr: Step size of the optimizer.
        width: Channels of the first layer; the others follow from it.
        seed: Start of all random numbers: the first weights and the order of the images.
        data: The file of images. It is settled where the job is submitted, so every process reads the same one.
    """

    epochs: int = 30
    batch_size: int = 64
    lr: float = 2e-3
    width: int = 32
    seed: int = 0
    data: Path = PROJECT / "data" / "raw" / "optdigits.csv.gz"
    prepared: ClassVar[Path] = PROJECT / "data" / "processed" / "optdigits.npz"
