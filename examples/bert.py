"""BERT in plain PyTorch style: the same file runs under PyTorch and under maquette.

The encoder of Devlin et al. 2018 with its masked-language-model head: norms *after* each half of
a block, learned positions, a decoder tied to the token embedding. The pooler and the next-sentence
head are left out: masked-language training does not use them.

    maquette plan examples/bert.py --train --optimizer adamw
    maquette plan examples/bert.py --args 'batch(64, 128)' --device cuda

Without `--model` and `--args` the command calls this file's `model()` and `args()`; with them, it
evaluates the expressions among this file's names.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MASK = 103  # the id of [MASK] in the published vocabulary
IGNORED = -100  # a target that cross_entropy passes over


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT."""

    layers: int
    heads: int
    width: int
    vocab: int = 30_522
    context: int = 512
    segments: int = 2
    dropout: float = 0.0

    @classmethod
    def base(cls) -> "BertConfig":
        """109,514,298 parameters: 108,891,648 in the encoder, 622,650 in the untied head."""
        return cls(layers=12, heads=12, width=768)

    @classmethod
    def large(cls) -> "BertConfig":
        """335,174,458 parameters."""
        return cls(layers=24, heads=16, width=1_024)

    @classmethod
    def tiny(cls) -> "BertConfig":
        """Small enough to train in a test."""
        return cls(layers=2, heads=4, width=32, vocab=107, context=16)


class Output(NamedTuple):
    """What the model returns when it is given targets."""

    loss: Tensor
    logits: Tensor


class Embeddings(nn.Module):
    """The sum of token, position and segment embeddings, normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.segments = nn.Embedding(config.segments, config.width)
        self.norm = nn.LayerNorm(config.width, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        """(batch, seq) token ids and segment ids to (batch, seq, width)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions) + self.segments(segments)
        return self.dropout(self.norm(x))


class Attention(nn.Module):
    """Self-attention over all tokens that the mask admits."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, seq, width) to the same shape."""
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One layer: attention, then a GELU feed-forward, each added to its input and normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.norm1 = nn.LayerNorm(config.width, eps=1e-12)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, seq, width) to the same shape."""
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Head(nn.Module):
    """Transforms each token, then scores it against every word."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=1e-12)
        self.decoder = nn.Linear(config.width, config.vocab)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, seq, width) to (batch, seq, vocab)."""
        return self.decoder(self.norm(F.gelu(self.transform(x))))


class Bert(nn.Module):
    """The masked language model."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = Head(config)
        self.head.decoder.weight = self.embeddings.tokens.weight
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        """Normal weights, zero biases."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | Output:
        """(batch, seq) token ids to (batch, seq, vocab) logits; with targets, `Output`.

        mask: bool (batch, seq), false where a token is padding. Targets of -100 do not count.
        """
        if segments is None:
            segments = torch.zeros_like(tokens)
        if mask is not None:
            mask = mask[:, None, None, :]
        x = self.embeddings(tokens, segments)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(x)
        if targets is None:
            return logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        return Output(loss, logits)


def batch(
    size: int = 32,
    seq: int = 512,
    vocab: int = 30_522,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Random token ids, 15 % of them masked, and the ids to predict there: int64 (size, seq)."""
    tokens = torch.randint(vocab, (size, seq), device=device)
    chosen = torch.rand(size, seq, device=device) < 0.15
    return tokens.masked_fill(chosen, MASK), tokens.masked_fill(~chosen, IGNORED)


def model() -> Bert:
    """What `maquette plan` builds when `--model` is not given: BERT-base."""
    return Bert(BertConfig.base())


def args() -> tuple[Tensor, Tensor]:
    """What `maquette plan` calls the model with when `--args` is not given: 32 x 512 tokens."""
    return batch()
