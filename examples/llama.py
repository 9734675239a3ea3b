"""Llama 3 in plain PyTorch style: the same file runs under PyTorch and under maquette.

The decoder of Llama 3 (Grattafiori et al. 2024): RMSNorm before each half of a block, rotary
positions, grouped-query attention, a SwiGLU feed-forward, no biases, an untied head. The
frequency scaling by which 3.1 reaches 128 k tokens is left out: it changes no shape.

    maquette plan examples/llama.py --dtype bfloat16 --device cuda
    maquette plan examples/llama.py --model 'Llama(LlamaConfig.llama_405b())' --train

Without `--model` and `--args` the command calls this file's `model()` and `args()`; with them, it
evaluates the expressions among this file's names.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama; `hidden` is the width inside the feed-forward."""

    layers: int
    heads: int
    kv_heads: int
    width: int
    hidden: int
    vocab: int = 128_256
    context: int = 8_192
    rope_base: float = 500_000.0
    eps: float = 1e-5

    @classmethod
    def llama_8b(cls) -> "LlamaConfig":
        """8,030,261,248 parameters."""
        return cls(layers=32, heads=32, kv_heads=8, width=4_096, hidden=14_336)

    @classmethod
    def llama_70b(cls) -> "LlamaConfig":
        """70,553,706,496 parameters."""
        return cls(layers=80, heads=64, kv_heads=8, width=8_192, hidden=28_672)

    @classmethod
    def llama_405b(cls) -> "LlamaConfig":
        """405,853,388,800 parameters."""
        return cls(layers=126, heads=128, kv_heads=8, width=16_384, hidden=53_248)

    @classmethod
    def tiny(cls) -> "LlamaConfig":
        """Small enough to train in a test; its four query heads share two key heads."""
        return cls(layers=2, heads=4, kv_heads=2, width=32, hidden=88, vocab=101, context=16)


class Output(NamedTuple):
    """What the model returns when it is given targets."""

    loss: Tensor
    logits: Tensor


class RMSNorm(nn.Module):
    """Scale each row to unit mean square, in float32, then by a learned weight."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same shape and dtype."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale).type_as(x) * self.weight


class Rotary(nn.Module):
    """The cosines and sines that turn pairs of features by an angle that grows with position."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        half = config.width // config.heads // 2
        frequencies = config.rope_base ** -(torch.arange(half).float() / half)
        angles = torch.outer(torch.arange(config.context).float(), frequencies)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, heads, seq, head width) to the same shape; feature i turns with i + half."""
        seq = x.shape[2]
        cos, sin = self.cos[:seq], self.sin[:seq]
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class Attention(nn.Module):
    """Causal self-attention; groups of query heads share a key and a value head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_width = config.width // config.heads
        kv_width = config.kv_heads * self.head_width
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, kv_width, bias=False)
        self.value = nn.Linear(config.width, kv_width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, rotary: Rotary) -> Tensor:
        """(batch, seq, width) to the same shape."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(
            rotary(q), rotary(k), v, is_causal=True, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """SwiGLU: one projection, through SiLU, gates another."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same shape."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """One layer: attention, then the feed-forward, each behind a norm and added to the stream."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.norm1 = RMSNorm(config.width, config.eps)
        self.attention = Attention(config)
        self.norm2 = RMSNorm(config.width, config.eps)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, rotary: Rotary) -> Tensor:
        """(batch, seq, width) to the same shape."""
        x = x + self.attention(self.norm1(x), rotary)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    """The language model."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.rotary = Rotary(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.eps)
        self.head = nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor | Output:
        """(batch, seq) token ids to (batch, seq, vocab) logits; with targets, `Output`."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.rotary)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return Output(F.cross_entropy(logits.flatten(0, 1), targets.flatten()), logits)


def batch(
    size: int = 1,
    seq: int = 8_192,
    vocab: int = 128_256,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Random token ids and targets, both int64 (size, seq), on the default device unless told."""
    tokens = torch.randint(vocab, (size, seq), device=device)
    targets = torch.randint(vocab, (size, seq), device=device)
    return tokens, targets


def model() -> Llama:
    """What `maquette plan` builds when `--model` is not given: the 8 B model."""
    return Llama(LlamaConfig.llama_8b())


def args() -> tuple[Tensor, Tensor]:
    """What `maquette plan` calls the model with when `--args` is not given: 1 x 8192 tokens."""
    return batch()
