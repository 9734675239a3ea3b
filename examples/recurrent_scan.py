"""A recurrent model over a long sequence, its loop one `scan`: planned at 100,000 steps at once.

The same file runs under PyTorch and maquette. A plan runs the body twice, whatever the length:

    maquette plan examples/recurrent_scan.py --args 'batch(100_000)'
    maquette plan examples/recurrent_scan.py --args 'batch(100_000)' --train
"""

import torch
from torch import Tensor, nn
from torch._higher_order_ops import scan


class GatedCell(nn.Module):
    """A gated linear recurrence: the state decays by a gate of the input and takes it in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.take_in = nn.Linear(width, width)

    def forward(self, state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.gate(x).sigmoid()
        new = gate * state + (1 - gate) * self.take_in(x).tanh()
        return new, new.clone()  # a scan's output may not share memory with its carry


class Recurrent(nn.Module):
    """Sequences (length, batch, width) to the mean square of all states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = GatedCell(width)

    def forward(self, xs: Tensor) -> Tensor:
        _, states = scan(self.cell, torch.zeros_like(xs[0]), xs)
        return states.square().mean()


def inference_bytes(length: int, batch: int, width: int) -> int:
    """The peak of a forward pass: inputs, each step's output, all outputs stacked.

    Beside them parameters, the first and the last state, and a step's own tensors, which do not
    grow with the length.
    """
    return 3 * length * batch * width * 4


def batch(length: int = 1_000, size: int = 4, width: int = 64) -> tuple[Tensor]:
    """Random sequences (length, size, width)."""
    return (torch.randn(length, size, width),)


def model() -> Recurrent:
    """What `maquette plan` builds when `--model` is not given."""
    return Recurrent(64)


def args() -> tuple[Tensor]:
    """What `maquette plan` calls the model with when `--args` is not given."""
    return batch()
