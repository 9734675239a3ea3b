"""Functions of two and three operands: every derivative, and lists of tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq
from maquette.api import functions as F

A = np.array([[0.5, 1.5], [2.0, 0.7]])
B = np.array([1.2, 0.4])
PAIRS = (
    "add sub mul div pow atan2 hypot maximum minimum fmax fmin remainder fmod logaddexp logaddexp2 "
    "xlogy special_xlog1py ldexp copysign clamp_min clamp_max float_power rsub"
).split()


@pytest.mark.parametrize("name", PAIRS)
def test_derivative_by_both_operands(name: str) -> None:
    check_gradients(getattr(F, name), A, B)


@pytest.mark.parametrize("name", ["mul", "div", "pow", "hypot", "logaddexp"])
def test_second_derivatives(name: str) -> None:
    check_second_gradients(getattr(F, name), A, B)


@pytest.mark.parametrize("number", [0, 1, 2, -1.5, 0.5])
def test_powers_with_numbers(number: float) -> None:
    check_gradients(lambda x: x**number, A)
    check_gradients(lambda x: F.pow(abs(number) + 1, x), A)


def test_pow_is_flat_where_zero_is_raised() -> None:
    x = mq.tensor([0.0, 0.0], requires_grad=True)
    grad = mq.autograd.grad((x**0).sum(), x)[0]
    assert grad.tolist() == [0, 0]
    exponent = mq.tensor([0.0, 2.0], requires_grad=True)
    grad = mq.autograd.grad((mq.zeros(2) ** exponent).sum(), exponent)[0]
    assert grad.tolist() == [0, 0]


def test_maximum_shares_its_gradient_where_both_are_largest() -> None:
    x, y = (mq.ones(1, requires_grad=True) for _ in range(2))
    grads = mq.autograd.grad(mq.maximum(x, y), (x, y))
    assert [g.item() for g in grads] == [0.5, 0.5]


def test_three_operands_differentiate() -> None:
    c = np.array([0.3, 0.9])
    check_gradients(lambda x, y, z: F.addcmul(x, y, z, value=2), A, B, c)
    check_gradients(lambda x, y, z: F.addcdiv(x, y, z, value=2), A, B, c)
    check_gradients(F.lerp, A, B, c)
    check_gradients(lambda x, y: F.lerp(x, y, 0.25), A, B)


def test_clamp_differentiates_by_its_bounds() -> None:
    check_gradients(F.clamp, A, np.array([0.6]), np.array([1.8]))
    check_gradients(lambda x: F.clamp(x, 0.6, 1.8), A)


def test_choice_differentiates() -> None:
    mask = mq.tensor([True, False])
    check_gradients(lambda x, y: F.where(mask, x, y), A, B)
    check_gradients(lambda x: F.masked_fill(x, mask, 3.0), A)
    check_gradients(lambda x, v: F.masked_fill(x, mask, v), A, np.array(2.0))


def test_in_place_products_differentiate_by_the_values_before() -> None:
    check_gradients(lambda x, y: (x * 1).mul_(y), A, B)
    check_gradients(lambda x, y: (x * 1).div_(y), A, B)


def test_lerp_promotes_nothing() -> None:
    with pytest.raises(RuntimeError, match="expected dtype"):
        mq.lerp(mq.ones(2), mq.ones(2, dtype=mq.float64), 0.5)


def test_addcdiv_refuses_integers() -> None:
    x = mq.tensor([1])
    with pytest.raises(RuntimeError, match="addcdiv"):
        mq.addcdiv(x, x, x)


def test_foreach_is_the_operator_member_by_member() -> None:
    xs, ys = [mq.ones(2), mq.ones(3, 1)], [mq.full((2,), 2.0), mq.full((3, 1), 3.0)]
    sums = mq._foreach_add(xs, ys, alpha=2)
    assert [s.tolist() for s in sums] == [[5, 5], [[7], [7], [7]]]


def test_foreach_writes_in_place_and_counts_versions() -> None:
    xs = [mq.ones(2), mq.ones(3)]
    assert mq._foreach_mul_(xs, 3) is xs
    assert [x.tolist() for x in xs] == [[3, 3], [3, 3, 3]]
    assert [x._version for x in xs] == [1, 1]


def test_foreach_takes_a_number_for_each() -> None:
    xs = [mq.ones(1), mq.ones(1)]
    mq._foreach_addcdiv_(xs, xs, [mq.ones(1), mq.ones(1)], [1.0, 2.0])
    assert [x.item() for x in xs] == [2, 3]


def test_foreach_differentiates_through_its_members() -> None:
    check_gradients(lambda x, y: F._foreach_mul([x, x], [y, y]), A, B)
    check_gradients(lambda x: F._foreach_sqrt([x]), A)


def test_foreach_refuses_lists_of_unequal_length() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors, got 1 and 2"):
        mq._foreach_add([mq.ones(1)], [mq.ones(1), mq.ones(1)])


@pytest.mark.parametrize("dtype", [mq.float32, mq.float64, mq.bfloat16, mq.complex64], ids=str)
@pytest.mark.parametrize("shape", [(), (7,), (5, 3)], ids=str)
@pytest.mark.parametrize(
    "step",
    [
        lambda x, y, z: (x.lerp(y, 0.1), x.lerp_(y, 0.1)),
        lambda x, y, z: (x.lerp(y, 0.7), x.lerp_(y, 0.7)),
        lambda x, y, z: (x.addcmul(y, z), x.addcmul_(y, z)),
        lambda x, y, z: (x.addcmul(y, y, value=0.3), x.addcmul_(y, y, value=0.3)),
        lambda x, y, z: (x.addcdiv(y, z, value=-0.3), x.addcdiv_(y, z, value=-0.3)),
        lambda x, y, z: (x.addcdiv(y, x), x.addcdiv_(y, x)),
        lambda x, y, z: (
            (x.addcmul(y, z[..., :1] if z.ndim else z, value=2),)
            + (x.addcmul_(y, z[..., :1] if z.ndim else z, value=2),)
        ),
    ],
)
def test_an_optimizers_step_in_place_gives_the_bits_of_the_functional_one(
    step: Callable[..., tuple[mq.Tensor, mq.Tensor]], shape: tuple[int, ...], dtype: mq.dtype
) -> None:
    mq.manual_seed(0)
    x, y, z = (mq.randn(shape).to(dtype) for _ in range(3))
    functional, written = step(x, y, z)
    assert written is x
    assert functional.tolist() == written.tolist()
