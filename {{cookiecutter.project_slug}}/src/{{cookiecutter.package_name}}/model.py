"""Define the network."""

import torch
from torch import nn

from .data import CLASSES, SIDE


class DigitNet(nn.Module):
    """Two convolutions and two linear layers: 52,000 weights at the usual width.

    Args:
        width: Channels of the first convolution; the second has twice as many.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        pooled = SIDE // 2
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * pooled * pooled, 32),
            nn.ReLU(),
            nn.Linear(32, CLASSES),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return a score for each digit, (batch, 10), for ``images`` of (batch, 1, 8, 8)."""
        return self.layers(images)
