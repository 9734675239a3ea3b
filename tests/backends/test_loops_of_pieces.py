"""Compiled loops over functions of straight pieces: the plain path's bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import LARGE, Plainly, arrays, plainly, spread_out, trained

import maquette as mq
import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F = torch.nn.functional

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "threshold": lambda x: F.threshold(x, 0.25, -3.0),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "leaky_relu, negative": lambda x: F.leaky_relu(x, -0.1),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3], dtype=x.dtype)),
    "prelu, channels": lambda x: F.prelu(
        x.reshape(50, 8, -1), torch.linspace(-1, 1, 8).to(x.dtype)
    ),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "sign": torch.sign,
    "angle": torch.angle,
    "nan_to_num": lambda x: torch.nan_to_num(x, 2.0, 3.0),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.ones_like(x), reduction="none", beta=0.5),
    "huber": lambda x: F.huber_loss(x, torch.ones_like(x), reduction="none", delta=0.7),
    "masked": lambda x: x.masked_fill(x > 0.5, 9.0),
}


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_pieces_have_the_plain_bits(
    name: str, kind: mq.dtype, plainly: Plainly
) -> None:
    x = spread_out().to(kind)
    function = FUNCTIONS[name]
    for given in (x, x.reshape(2, -1).t()[:, :1].expand(-1, 3) if "prelu" not in name else x):
        (found,) = arrays(function(given).double())
        (expected,) = arrays(plainly(lambda given=given: function(given).double()))
        np.testing.assert_array_equal(found, expected)
        assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("sign", "angle")])
def test_slopes_of_pieces_have_the_plain_bits(name: str, plainly: Plainly) -> None:
    run = trained(FUNCTIONS[name], spread_out())
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_slope_takes_a_gradient_that_is_expanded(plainly: Plainly) -> None:
    def run() -> object:
        leaf = spread_out().requires_grad_()
        F.leaky_relu(leaf).sum().backward()
        return leaf.grad

    np.testing.assert_array_equal(arrays(run())[0], arrays(plainly(run))[0])


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int32, torch.int64], ids=str)
def test_signs_of_integers(kind: mq.dtype) -> None:
    x = torch.arange(LARGE).to(kind)
    assert (x.sign().numpy() == np.sign(x.numpy())).all()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["leaky_relu", "hardsigmoid", "hardswish"])
def test_slopes_of_gradients_that_are_expanded(name: str, kind: mq.dtype, plainly: Plainly) -> None:
    def run() -> object:
        leaf = spread_out().to(kind).requires_grad_()
        (3 * FUNCTIONS[name](leaf).sum()).backward()
        return leaf.grad

    np.testing.assert_array_equal(arrays(run())[0], arrays(plainly(run))[0])
