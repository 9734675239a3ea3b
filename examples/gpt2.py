"""GPT-2 in plain PyTorch style: the same file runs under PyTorch and under maquette.

The decoder of Radford et al. 2019: learned positions, norms before each half of a block, GELU in
its tanh form, the output head tied to the token embedding. Four published sizes, and a tiny one.

    maquette plan examples/gpt2.py --train --optimizer adamw
    maquette plan examples/gpt2.py --model 'GPT2(GPT2Config.xl())' --args 'batch(4, 512)'

Without `--model` and `--args` the command calls this file's `model()` and `args()`; with them, it
evaluates the expressions among this file's names.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class GPT2Config:
    """The sizes of a GPT-2."""

    layers: int
    heads: int
    width: int
    vocab: int = 50_257
    context: int = 1_024
    dropout: float = 0.0

    @classmethod
    def small(cls) -> "GPT2Config":
        """124,439,808 parameters."""
        return cls(layers=12, heads=12, width=768)

    @classmethod
    def medium(cls) -> "GPT2Config":
        """354,823,168 parameters."""
        return cls(layers=24, heads=16, width=1_024)

    @classmethod
    def large(cls) -> "GPT2Config":
        """774,030,080 parameters."""
        return cls(layers=36, heads=20, width=1_280)

    @classmethod
    def xl(cls) -> "GPT2Config":
        """1,557,611,200 parameters."""
        return cls(layers=48, heads=25, width=1_600)

    @classmethod
    def tiny(cls) -> "GPT2Config":
        """Small enough to train in a test."""
        return cls(layers=2, heads=4, width=32, vocab=101, context=16)


class Output(NamedTuple):
    """What the model returns when it is given targets."""

    loss: Tensor
    logits: Tensor


class Attention(nn.Module):
    """Causal self-attention; query, key and value come from one projection."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, seq, width) to the same shape."""
        size, seq, width = x.shape
        q, k, v = (
            part.view(size, seq, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(size, seq, width))


class MLP(nn.Module):
    """Two linear layers with a GELU between them, four times as wide inside."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.up = nn.Linear(config.width, 4 * config.width)
        self.act = nn.GELU(approximate="tanh")
        self.out = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same shape."""
        return self.out(self.act(self.up(x)))


class Block(nn.Module):
    """One layer: attention, then the MLP, each behind a norm and added to the stream."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, seq, width) to the same shape."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT2(nn.Module):
    """The language model."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        self.head.weight = self.tokens.weight
        self._initialise()

    def _initialise(self) -> None:
        """Normal weights, zero biases; projections back into the stream shrink with depth."""
        residual = 0.02 / math.sqrt(2 * self.config.layers)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                std = residual if name.endswith("out.weight") else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor | Output:
        """(batch, seq) token ids to (batch, seq, vocab) logits; with targets, `Output`."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return Output(F.cross_entropy(logits.flatten(0, 1), targets.flatten()), logits)


def batch(
    size: int = 8,
    seq: int = 1_024,
    vocab: int = 50_257,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Random token ids and targets, both int64 (size, seq), on the default device unless told."""
    tokens = torch.randint(vocab, (size, seq), device=device)
    targets = torch.randint(vocab, (size, seq), device=device)
    return tokens, targets


def model() -> GPT2:
    """What `maquette plan` builds when `--model` is not given: the 124 M model."""
    return GPT2(GPT2Config.small())


def args() -> tuple[Tensor, Tensor]:
    """What `maquette plan` calls the model with when `--args` is not given: 8 x 1024 tokens."""
    return batch()
