"""ResNet in plain PyTorch style: the same file runs under PyTorch and under maquette.

ResNet-50 of He et al. 2015 with the stride on the 3 x 3 convolution (the "v1.5" that everyone
trains): bottleneck blocks, batch norm, ReLU in place.

    maquette plan examples/resnet.py --train --optimizer sgd
    maquette plan examples/resnet.py --args 'batch(256)' --device cuda

Without `--model` and `--args` the command calls this file's `model()` and `args()`; with them, it
evaluates the expressions among this file's names.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class ResNetConfig:
    """Blocks per stage, the width of the first stage (each next one doubles it), classes."""

    blocks: tuple[int, ...]
    width: int = 64
    classes: int = 1_000

    @classmethod
    def resnet50(cls) -> "ResNetConfig":
        """25,557,032 parameters."""
        return cls(blocks=(3, 4, 6, 3))

    @classmethod
    def resnet101(cls) -> "ResNetConfig":
        """44,549,160 parameters."""
        return cls(blocks=(3, 4, 23, 3))

    @classmethod
    def tiny(cls) -> "ResNetConfig":
        """Small enough to train in a test."""
        return cls(blocks=(1, 2), width=8, classes=10)


class Output(NamedTuple):
    """What the model returns when it is given targets."""

    loss: Tensor
    logits: Tensor


class Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3 with the stride, 1 x 1 up to four times the width; added to the input."""

    EXPANSION = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, outputs, height / stride, width / stride)."""
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    """The image classifier."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = nn.Sequential(
            nn.Conv2d(3, config.width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(config.width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages = []
        inputs = config.width
        for index, blocks in enumerate(config.blocks):
            width = config.width * 2**index
            for block in range(blocks):
                stride = 2 if index > 0 and block == 0 else 1
                stages.append(Bottleneck(inputs, width, stride))
                inputs = width * Bottleneck.EXPANSION
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, config.classes)
        self._initialise()

    def _initialise(self) -> None:
        """Kaiming's normal initialisation for the convolutions, the layers' own for the rest."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor, targets: Tensor | None = None) -> Tensor | Output:
        """(batch, 3, height, width) images to (batch, classes) logits; with targets, `Output`."""
        features = self.stages(self.stem(images))
        logits = self.head(features.mean((2, 3)))
        if targets is None:
            return logits
        return Output(F.cross_entropy(logits, targets), logits)


def batch(
    size: int = 32,
    pixels: int = 224,
    classes: int = 1_000,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Random images (size, 3, pixels, pixels) and int64 classes (size,)."""
    images = torch.randn(size, 3, pixels, pixels, device=device)
    targets = torch.randint(classes, (size,), device=device)
    return images, targets


def model() -> ResNet:
    """What `maquette plan` builds when `--model` is not given: ResNet-50."""
    return ResNet(ResNetConfig.resnet50())


def args() -> tuple[Tensor, Tensor]:
    """What `maquette plan` calls the model with when `--args` is not given: 32 images."""
    return batch()
