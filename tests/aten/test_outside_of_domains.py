"""Large arrays with numbers that a function is not defined for, or that it is slow at."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import maquette.torch as torch

_SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, -2.0, -2.5]


def values(dtype: torch.dtype) -> torch.Tensor:
    drawn = np.random.default_rng(7).standard_normal(40_000) * 4
    drawn[: len(_SPECIAL)] = _SPECIAL
    return torch.from_numpy(drawn).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", [torch.log1p, torch.atanh, torch.erfinv])
def test_outside_of_its_domain_a_function_is_nan(
    function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    x = values(dtype)
    each = torch.cat([function(part) for part in x.split(1000)])  # small arrays, element by element
    assert torch.equal(function(x).isnan(), each.isnan())
    torch.testing.assert_close(function(x), each, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", [torch.lgamma, torch.digamma])
def test_below_zero_gammas_are_reflected(
    function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    x = values(dtype)
    each = torch.cat([function(part) for part in x.split(1000)])
    torch.testing.assert_close(function(x), each, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("layout", ["alike", "transposed"])
def test_quotients_of_integers_are_cut(dtype: torch.dtype, layout: str) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(-100, 100, (100, 100))
    b = rng.integers(1, 100, (100, 100)) * rng.choice([-1, 1], (100, 100))
    x, y = torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)
    if layout == "transposed":
        y, b = y.T, b.T
    found = torch.div(x, y, rounding_mode="trunc")
    assert found.tolist() == (np.sign(a) * np.sign(b) * (abs(a) // abs(b))).tolist()


def test_quotients_of_integers_beyond_double_precision_are_exact() -> None:
    x = torch.full((5000,), 2**62 - 1, dtype=torch.int64)
    y = torch.full((5000,), -1, dtype=torch.int64)
    assert torch.div(x, y, rounding_mode="trunc")[0].item() == 1 - 2**62


def test_the_inverse_error_function_keeps_the_sign_of_zero() -> None:
    found = torch.erfinv(torch.tensor([-0.0, 0.0], dtype=torch.float64))
    assert found.signbit().tolist() == [True, False]
