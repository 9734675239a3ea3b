"""Compiled remainders, rounded quotients, neighbours and points between: the plain path's bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly, ulps

import maquette as mq
import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

EDGES = [
    0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.1, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 5e-324, 3e38,
    -3e38, 1e30, 1e-30, 2.5, 7.0, 1e300, -1e-300,
]  # fmt: skip
Pairs = Callable[[Tensor, Tensor], Tensor]
FUNCTIONS: dict[str, Pairs] = {
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
    "divided, down": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "nextafter": torch.nextafter,
    "lerp": lambda a, b: torch.lerp(a, b, (a / b).clamp(-1, 2)),
    "fmod, a number": lambda a, b: torch.fmod(a, -0.3),
    "remainder, a number": lambda a, b: a % -0.3,
    "floor_divide, a number": lambda a, b: a // 0.3,
    "rows of columns": lambda a, b: a.reshape(2, -1).t() % b.reshape(2, -1).t(),
}


def _pairs(kind: mq.dtype) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    a, b = (x.ravel() for x in np.meshgrid(EDGES, EDGES))
    near, far, whole = rng.normal(size=(3, 2, 10_000))
    near *= 10 ** rng.uniform(-4, 8, near.shape)
    far *= 10 ** rng.uniform(-37, 37, far.shape)
    joined = np.concatenate([[a, b], near, far, np.round(whole * 30), np.ones((2, 1))], 1)
    with np.errstate(over="ignore"):
        return tuple(torch.tensor(x, dtype=kind) for x in joined)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_pairs_have_the_plain_bits(
    name: str, kind: mq.dtype, plainly: Plainly
) -> None:
    if name == "nextafter" and kind is torch.float16:
        pytest.skip("neighbours are of single and double numbers")
    a, b = _pairs(kind)
    (found,) = arrays(FUNCTIONS[name](a, b).double())
    (expected,) = arrays(plainly(lambda: FUNCTIONS[name](a, b).double()))
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


def test_lengths_of_doubles_are_within_an_ulp(plainly: Plainly) -> None:
    a, b = _pairs(torch.float64)
    (found,) = arrays(torch.hypot(a, b))
    (expected,) = arrays(plainly(lambda: torch.hypot(a, b)))
    assert ulps(found, expected) <= 1
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
