"""A vision transformer in plain PyTorch style: the same file runs under PyTorch and maquette.

ViT of Dosovitskiy et al. 2020: an image is cut into patches, each a token; a learned class token
gathers what the head reads. The initialiser uses `trunc_normal_`, as the published ones do.

    maquette plan examples/vit.py --train --optimizer adamw
    maquette plan examples/vit.py --args 'batch(256)' --device cuda

Without `--model` and `--args` the command calls this file's `model()` and `args()`; with them, it
evaluates the expressions among this file's names.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class ViTConfig:
    """The sizes of a ViT; an image is `pixels` high and wide, a patch `patch`."""

    layers: int
    heads: int
    width: int
    patch: int = 16
    pixels: int = 224
    classes: int = 1_000
    dropout: float = 0.0

    @classmethod
    def base16(cls) -> "ViTConfig":
        """86,567,656 parameters."""
        return cls(layers=12, heads=12, width=768)

    @classmethod
    def large16(cls) -> "ViTConfig":
        """304,326,632 parameters."""
        return cls(layers=24, heads=16, width=1_024)

    @classmethod
    def tiny(cls) -> "ViTConfig":
        """Small enough to train in a test."""
        return cls(layers=2, heads=4, width=32, patch=4, pixels=16, classes=10)


class Output(NamedTuple):
    """What the model returns when it is given targets."""

    loss: Tensor
    logits: Tensor


class Attention(nn.Module):
    """Self-attention over all tokens; query, key and value come from one projection."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same shape."""
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Two linear layers with a GELU between them, four times as wide inside."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.width, 4 * config.width)
        self.out = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same shape."""
        return self.out(F.gelu(self.up(x)))


class Block(nn.Module):
    """One layer: attention, then the MLP, each behind a norm and added to the stream."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, eps=1e-6)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width, eps=1e-6)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same shape."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    """The image classifier."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        patches = (config.pixels // config.patch) ** 2
        self.patches = nn.Conv2d(3, config.width, config.patch, stride=config.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = nn.Parameter(torch.zeros(1, patches + 1, config.width))
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width, eps=1e-6)
        self.head = nn.Linear(config.width, config.classes)
        self._initialise()

    def _initialise(self) -> None:
        """Truncated normal weights, zero biases."""
        for parameter in (self.class_token, self.positions):
            nn.init.trunc_normal_(parameter, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor, targets: Tensor | None = None) -> Tensor | Output:
        """(batch, 3, pixels, pixels) images to (batch, classes) logits; with targets, `Output`."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        class_token = self.class_token.expand(images.shape[0], -1, -1)
        x = torch.cat((class_token, patches), dim=1) + self.positions
        x = self.norm(self.blocks(self.dropout(x)))
        logits = self.head(x[:, 0])
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


def model() -> ViT:
    """What `maquette plan` builds when `--model` is not given: ViT-B/16."""
    return ViT(ViTConfig.base16())


def args() -> tuple[Tensor, Tensor]:
    """What `maquette plan` calls the model with when `--args` is not given: 32 images."""
    return batch()
