"""Derivatives of products of every order, where factors are zero."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import maquette as mq
from maquette import autograd
from maquette.aten.reduction.linear_recurrence import linear_recurrence
from maquette.torch.autograd.gradcheck import gradcheck, gradgradcheck

D = mq.float64
WEIGHTS = mq.tensor([1.0, 2, 3, 4, 5], dtype=D)
PLACES = mq.tensor([0, 0, 0, 0, 1])
TURNED = mq.tensor([0, 0, 1, 0, 0])


def _two(x: mq.Tensor, include_self: bool) -> mq.Tensor:
    ones = mq.ones(2, dtype=D)
    return ones.scatter_reduce(0, PLACES, x, "prod", include_self=include_self) * WEIGHTS[:2]


PRODUCTS: dict[str, Callable[[mq.Tensor], mq.Tensor]] = {
    "prod": lambda x: x.prod(),
    "prod_dim": lambda x: x.prod(0, keepdim=True),
    "cumprod": lambda x: x.cumprod(0) * WEIGHTS,
    "cumprod_of_rows": lambda x: mq.stack([x, x.flip(0)]).cumprod(1) * WEIGHTS,
    "scatter_reduce": lambda x: _two(x, True),
    "scatter_reduce_without_self": lambda x: _two(x, False),
    "scatter_reduce_onto_factors": lambda x: x.scatter_reduce(0, TURNED, x * 1.5, "prod") * WEIGHTS,
    "index_reduce": lambda x: x.index_reduce(0, TURNED, x * 2, "prod") * WEIGHTS,
}
ZEROS = (
    [2.0, 3, 4, 5, 6],
    [0.0, 3, 4, 5, 6],
    [0.0, 3, 0, 5, 6],
    [0.0, 3, 0, 0, 6],
    [0.0] * 4 + [6],
)


def _direction(k: int) -> mq.Tensor:
    return mq.sin(mq.arange(5, dtype=D) * (1.3 + k) + k)


def _along_directions(f: Callable[[mq.Tensor], mq.Tensor], x: mq.Tensor, order: int) -> float:
    value = f(x).sum()
    for k in range(order):
        (grad,) = autograd.grad(value, x, create_graph=True, materialize_grads=True)
        value = (grad * _direction(k)).sum()
    return float(value.detach())


def _by_differences(f: Callable[[mq.Tensor], mq.Tensor], x: mq.Tensor, order: int) -> float:
    step, total = 1e-2, 0.0
    for signs in itertools.product((1, -1), repeat=order):
        moved, sign = x.detach(), 1
        for k, s in enumerate(signs):
            moved, sign = moved + s * step * _direction(k), sign * s
        total += sign * float(f(moved).sum())
    return total / (2 * step) ** order


@pytest.mark.parametrize("zeros", range(5))
@pytest.mark.parametrize("name", PRODUCTS)
def test_derivatives_of_products_are_exact_in_every_order(name: str, zeros: int) -> None:
    """Orders 1 to 4, with as many zeros: no factor is divided by, none is left out."""
    x = mq.tensor(ZEROS[zeros], dtype=D, requires_grad=True)
    for order in (1, 2, 3, 4):
        expected = _by_differences(PRODUCTS[name], x, order)
        found = _along_directions(PRODUCTS[name], x, order)
        assert found == pytest.approx(expected, rel=1e-2, abs=1e-2), f"order {order}"


def test_a_gradient_behind_a_zero_stays_zero_however_large_the_products() -> None:
    x = mq.full((400,), 10.0, dtype=D)
    x[0] = 0
    x.requires_grad_()
    (grad,) = autograd.grad(x.cumprod(0).sum(), x)
    assert not grad[1:].any()


@pytest.mark.parametrize("shape", [(3,), (200,), (7000,), (5000, 70)])
def test_a_recurrence_by_blocks_is_the_one_by_steps(shape: tuple[int, ...]) -> None:
    mq.manual_seed(0)
    a, b = mq.rand(shape, dtype=D), mq.rand(shape, dtype=D)
    found = linear_recurrence(a, b, 0)
    before = mq.cat([mq.zeros_like(found[:1]), found[:-1]])
    assert mq.allclose(found, b + a * before, rtol=1e-12)


def test_the_derivative_of_a_recurrence_is_one() -> None:
    mq.manual_seed(0)
    a = mq.rand(2, 5, dtype=mq.complex128, requires_grad=True)
    b = mq.rand(2, 5, dtype=mq.complex128, requires_grad=True)
    for dim in (1, -2):

        def along(a: mq.Tensor, b: mq.Tensor) -> mq.Tensor:
            return linear_recurrence(a, b, dim)  # noqa: B023 — called here

        assert gradcheck(along, (a, b), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(along, (a, b))
