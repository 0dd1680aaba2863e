"""The models that are trained: ResNet-50, whose figures are published everywhere, and a small one for a CPU."""

from __future__ import annotations

import importlib
import importlib.util

import torch
from torch import nn

RESNET50_PARAMETERS = 25_557_032
_BLOCKS = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # how many, width, stride of the first
_EXPANSION = 4


class _Bottleneck(nn.Module):
    """Three convolutions beside a short cut; the stride is in the second (version 1.5)."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * _EXPANSION
        self.body = nn.Sequential(
            *_convolution(channels, width, 1),
            nn.ReLU(inplace=True),
            *_convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *_convolution(width, out, 1),
        )
        same = stride == 1 and channels == out
        self.short_cut = nn.Identity() if same else nn.Sequential(*_convolution(channels, out, 1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, channels, height, width)`` to ``(batch, 4 width, height / stride, width / stride)``."""
        result: torch.Tensor = self.relu(self.body(images) + self.short_cut(images))
        return result


def make_resnet50() -> nn.Module:
    """Return ResNet-50 for 1000 classes: torchvision's where it is installed, else the same network made here.

    Source: He et al. 2016, table 1; the stride as in torchvision and NVIDIA's version 1.5.
    """
    if importlib.util.find_spec("torchvision") is not None:
        model: nn.Module = importlib.import_module("torchvision.models").resnet50()
        return model
    return make_own_resnet50()


def make_own_resnet50() -> nn.Module:
    """Return the network made here, of ``(batch, 3, 224, 224)`` to ``(batch, 1000)``."""
    layers = [*_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)]
    channels = 64
    for count, width, stride in _BLOCKS:
        for number in range(count):
            layers.append(_Bottleneck(channels, width, stride if number == 0 else 1))
            channels = width * _EXPANSION
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def make_small() -> nn.Module:
    """Return a network of two convolutions, of ``(batch, 3, 32, 32)`` to ``(batch, 10)``."""
    return nn.Sequential(
        *_convolution(3, 16, 3, 2),
        nn.ReLU(inplace=True),
        *_convolution(16, 32, 3, 2),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def _convolution(channels: int, out: int, size: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(channels, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out)]
