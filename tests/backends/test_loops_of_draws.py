"""Compiled samplers that reject: the plain path's draws, and the stream after them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly

import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

SIZE = 5_000


def _parameters() -> Tensor:
    """Shapes and rates of all sizes, zero among them."""
    torch.manual_seed(1)
    x = torch.randn(SIZE).double().exp() * torch.tensor([0.01, 1.0, 10.0, 1e4]).repeat(SIZE // 4)
    x[:4] = torch.tensor([0.0, 1e-30, 1e15, 3e-42])
    return x


SAMPLERS: dict[str, Callable[[Tensor], Tensor]] = {
    "poisson": torch.poisson,
    "binomial": lambda x: torch.binomial(x.ceil(), (x % 1.1 - 0.05).nan_to_num(0.5)),
    "gamma": torch._standard_gamma,
    "dirichlet": lambda x: torch._sample_dirichlet(x.reshape(-1, 10) + 0.1),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_that_reject_are_the_plain_ones(name: str, plainly: Plainly) -> None:
    x = _parameters()

    def run() -> object:
        torch.manual_seed(4)
        first = torch.randn(3)  # a spare normal number is kept
        return first, SAMPLERS[name](x), torch.get_rng_state(), torch.randn(3)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_uniform_doubles_are_the_plain_ones(plainly: Plainly) -> None:
    def run() -> object:
        torch.manual_seed(2)
        return torch.empty(20_001, dtype=torch.float64).uniform_(-1.1, 2.3), torch.rand(3)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_stream_of_no_draws_stays_fresh() -> None:
    torch.manual_seed(4)
    before = torch.get_rng_state()
    assert (torch.poisson(torch.zeros(SIZE)) == 0).all()
    assert (torch.get_rng_state() == before).all()


SMALL: dict[str, Callable[[], Tensor]] = {
    "few normals": lambda: torch.randn(7),
    "moved normals": lambda: torch.normal(0.3, 1.7, (9,), dtype=torch.float64),
    "normals in blocks": lambda: torch.randn(100),
    "moved blocks": lambda: torch.empty(64).normal_(-0.2, 3.1),
    "broken blocks of halves": lambda: torch.randn(37, dtype=torch.bfloat16),
    "uniform numbers": lambda: torch.rand(700),
    "whole numbers": lambda: torch.randint(-3, 268_435_452, (800,)),
    "truths": lambda: torch.empty(50).bernoulli_(0.3),
    "logarithms": lambda: torch.empty(5).log_normal_(),
    "a permutation": lambda: torch.randperm(40),
    "positions": lambda: torch.multinomial(torch.tensor([0.2, 0.5, 0.3]), 8, True),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_draws_are_the_plain_ones(name: str, plainly: Plainly) -> None:
    def run() -> object:
        torch.manual_seed(3)
        return *[SMALL[name]().double() for _ in range(3)], torch.get_rng_state(), torch.randn(3)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)
