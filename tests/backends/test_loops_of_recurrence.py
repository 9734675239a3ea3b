"""Compiled steps of recurrent layers beside the plain ones: outputs, states and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly

import maquette.torch as torch

__all__ = ["plainly"]


@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lstm_layers_are_the_plain_ones(batch: int, dtype: str, plainly: Plainly) -> None:
    kind = getattr(torch, dtype)
    torch.manual_seed(0)
    net = torch.nn.LSTM(9, 37, 2, bidirectional=True).to(kind)
    x = (torch.randn(70, batch, 9) * 3).to(kind)
    states = tuple(torch.randn(4, batch, 37).to(kind) for _ in range(2))

    def run() -> object:
        leaves = [t.detach().requires_grad_() for t in (x, *states)]
        net.zero_grad()
        output, (h, c) = net(leaves[0], tuple(leaves[1:]))
        (output.sin().sum() + h.sum() + c.square().sum()).backward()
        grads = [t.grad for t in (*leaves, *net.parameters())]
        return [t.float() for t in (output, h, c, *grads)]

    near = 2e-5 if dtype == "float32" else 2e-2
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=near, atol=near * np.abs(expected).max())


def test_lstm_gradients_of_the_last_state_alone(plainly: Plainly) -> None:
    torch.manual_seed(0)
    net = torch.nn.LSTM(5, 40)
    x = torch.randn(60, 1, 5)

    def run() -> object:
        net.zero_grad()
        net(x)[1][1].sum().backward()
        return [p.grad for p in net.parameters()]

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
