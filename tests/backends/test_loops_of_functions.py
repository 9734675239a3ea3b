"""Compiled elementary functions and activations against wider numbers and the plain path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly, spread_out, trained, ulps

import maquette as mq
import maquette.torch as torch
from maquette.aten.common import elementary_functions
from maquette.backends import loops
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F = torch.nn.functional

NAMES = (
    "sin cos tan arcsin arccos arctan sinh cosh arcsinh arccosh arctanh expm1 exp2 log1p".split()
)
EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-42, 5e-324, -5e-324, 1.7e308,
    -1.7e308, 2.2e-308, 709.78, 710.4, 710.47, 710.5, -745.0, 88.72, 88.73, 89.4, 89.42, 128.0,
    -126.5, -149.5, -1022.5, -1074.5, 1024.0, 1e9, 1e18, -1e9, 1e7, -3e38, 1e5, -1 + 1e-16,
]  # fmt: skip


def _numbers(kind: type) -> np.ndarray:
    rng = np.random.default_rng(0)
    near, far = rng.uniform(-1, 1, 20_000), rng.normal(size=20_000) * 10 ** rng.uniform(-12, 3)
    turns = np.arange(-200, 200) * (np.pi / 4)
    with np.errstate(over="ignore"):
        return np.concatenate([near, far, 1 + abs(far), turns, EDGES]).astype(kind)


@pytest.mark.parametrize(("kind", "most"), [(np.float32, 0.52), (np.float64, 2.0)])
@pytest.mark.parametrize("name", NAMES)
def test_elementary_functions_are_within_ulps(name: str, kind: type, most: float) -> None:
    x = _numbers(kind)
    found = loops.function(name, x)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.longdouble))
        nearest = exact.astype(kind)
    kept = np.isfinite(nearest) & (abs(x) < 1e6)  # beyond, angles are left to the C library
    np.testing.assert_array_equal(found[~np.isfinite(nearest)], nearest[~np.isfinite(nearest)])
    off = abs(found[kept] - exact[kept]) / np.spacing(abs(nearest[kept]))
    assert off.max() <= most
    assert (np.signbit(found) == np.signbit(nearest))[~np.isnan(nearest)].all()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_operators_call_the_loops_where_numpy_is_slow(
    kind: mq.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elementary_functions, "is_one_by_one", lambda name, letter: True)
    x = spread_out().to(kind)
    names = {"tan": "tan", "atan": "arctan", "asinh": "arcsinh", "log1p": "log1p"}
    for name, of_numpy in names.items():
        (found,) = arrays(getattr(torch, name)(x))
        np.testing.assert_array_equal(found, loops.function(of_numpy, x.numpy()))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.3),
    "softplus": F.softplus,
    "softplus, sharp": lambda x: F.softplus(x, 2.5, 7.0),
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "log10": torch.log10,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_doubles_are_the_plain_ones(name: str, plainly: Plainly) -> None:
    x = spread_out().double()
    (found,) = arrays(ACTIVATIONS[name](x))
    (expected,) = arrays(plainly(lambda: ACTIVATIONS[name](x)))
    # The plain mish and log-sigmoid lose digits where they are near zero.
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-300)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n not in ("sigmoid", "silu")])
def test_activations_of_single_numbers_are_those_of_doubles(name: str) -> None:
    x = spread_out()
    (found,) = arrays(ACTIVATIONS[name](x))
    (expected,) = arrays(ACTIVATIONS[name](x.double()).float())
    kept = (abs(expected) > 1e-37) | (expected == 0) | np.isnan(expected)
    limit = 90 if name == "softplus, sharp" else 3  # `x * beta` is rounded first, as in PyTorch
    assert ulps(found[kept], expected[kept]) <= limit


def test_the_slope_of_logsigmoid_has_the_plain_bits(plainly: Plainly) -> None:
    run = trained(F.logsigmoid, spread_out())
    found, expected = arrays(run())[1], arrays(plainly(run))[1]
    assert ulps(found, expected) <= 4


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_the_second_derivative_of_lgamma(kind: mq.dtype, plainly: Plainly) -> None:
    x = torch.linspace(-5.05, 30, 30_001, dtype=kind)
    (found,) = arrays(torch.polygamma(1, x))
    (expected,) = arrays(plainly(lambda: torch.polygamma(1, x)))
    assert ulps(found[x.numpy() > 0.5], expected[x.numpy() > 0.5]) <= 8
    np.testing.assert_allclose(found, expected, rtol=1e-6 if kind is torch.float32 else 1e-14)


def test_lgamma_of_single_numbers_is_exact_and_rounded(plainly: Plainly) -> None:
    near_root = torch.linspace(-2.4571, -2.4569, 5_000)  # where it crosses zero
    x = torch.cat([spread_out(), torch.linspace(-60, 3, 40_001), near_root])
    x[:8] = torch.tensor([0.0, -0.0, -1.0, -3e9, -torch.inf, torch.inf, torch.nan, -1e-45])
    (found,), (exact,) = arrays(x.lgamma()), arrays(plainly(lambda: x.double().lgamma()))
    assert ulps(found, exact.astype(np.float32)) <= 1


def test_erfinv_of_single_numbers(plainly: Plainly) -> None:
    x = torch.cat([torch.linspace(-1, 1, 20_001), 1 - torch.logspace(-7, -1, 400)])
    x = torch.cat([x, -x, torch.tensor([2.0, -3.0, torch.nan, torch.inf, 1e-42, -0.0])])
    (found,), (expected,) = arrays(x.erfinv()), arrays(x.double().erfinv())
    assert ulps(found, expected.astype(np.float32)) <= 1
    assert np.signbit(found[-1])
