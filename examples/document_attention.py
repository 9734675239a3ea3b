"""Attention over packed documents: no token sees another document, said by a function of positions.

The same file runs under PyTorch and maquette. `flex_attention` takes the function as a mask;
`create_block_mask` finds the blocks that it leaves empty.

    maquette run examples/document_attention.py
"""

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def document_mask(documents: Tensor):
    """A causal mask within documents; `documents` says which one each position is of."""

    def mask(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (documents[q] == documents[kv]) & (q >= kv)

    return mask


class PackedAttention(nn.Module):
    """Self-attention of (batch, length, width) tensors over packed documents."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, documents: Tensor) -> Tensor:
        size, length, width = x.shape
        parts = self.qkv(x).view(size, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = create_block_mask(
            document_mask(documents), None, None, length, length, device=x.device, BLOCK_SIZE=16
        )
        mixed = flex_attention(*parts.unbind(0), block_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(size, length, width))


def documents_of(lengths: list[int]) -> Tensor:
    """The number of the document of each position."""
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


def alone(model: PackedAttention, x: Tensor, lengths: list[int]) -> Tensor:
    """Each document by itself: what the packed call must equal."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    pieces = [x[:, s : s + n] for s, n in zip(starts, lengths)]
    return torch.cat([model(p, documents_of([p.shape[1]])) for p in pieces], dim=1)


@torch.no_grad()  # PyTorch differentiates it on accelerators only
def main() -> None:
    """Show that packing changes nothing, and how many blocks the mask leaves out."""
    torch.manual_seed(0)
    lengths = [24, 40, 16, 48]
    model, x = PackedAttention(32, 4), torch.randn(2, sum(lengths), 32)
    packed = model(x, documents_of(lengths))
    difference = (packed - alone(model, x, lengths)).abs().max().item()
    n = x.shape[1]
    mask = create_block_mask(
        document_mask(documents_of(lengths)), None, None, n, n, device="cpu", BLOCK_SIZE=16
    )
    print(f"largest difference to documents alone: {difference:.1e}")
    print(f"blocks that no query sees: {mask.sparsity():.0f} %")


if __name__ == "__main__":
    main()
