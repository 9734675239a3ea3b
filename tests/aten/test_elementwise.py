"""Arithmetic, comparisons and choice: types, strides, refusals (T28-T41), edges of kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import maquette as mq

INTS = [mq.uint8, mq.int8, mq.int16, mq.int32, mq.int64]


def test_T28_a_0_dim_tensor_counts_only_in_a_higher_category() -> None:
    ints, real = mq.ones(1, dtype=mq.int8), mq.tensor(2.0, dtype=mq.float64)
    assert (ints + mq.tensor(1)).dtype is mq.int8
    assert (ints + real).dtype is mq.float64
    assert (mq.ones(1) + real).dtype is mq.float32


def test_T29_a_number_stands_for_its_kind() -> None:
    assert (mq.ones(2, dtype=mq.int8) + 1.0).dtype is mq.float32
    assert (mq.ones(2, dtype=mq.bfloat16) + 1j).dtype is mq.complex64
    assert (mq.ones(2, dtype=mq.bool) + 1).dtype is mq.int64


@pytest.mark.parametrize("kind", INTS)
def test_T31_integers_divide_into_the_default_dtype(kind: mq.dtype) -> None:
    assert (mq.ones(2, dtype=kind) / 2).dtype is mq.float32
    assert mq.sqrt(mq.ones(2, dtype=kind)).dtype is mq.float32


def test_T31_rounding_follows_the_divisor_or_the_dividend() -> None:
    x = mq.tensor([-7])
    assert (x // 2).tolist() == [-4]
    assert (x % 3).tolist() == [2]
    assert mq.fmod(x, 3).tolist() == [-1]
    assert mq.div(x, 2, rounding_mode="trunc").tolist() == [-3]


@pytest.mark.parametrize("act", [lambda x: x // 0, lambda x: x % 0, lambda x: mq.fmod(x, 0)])
def test_T31_an_integer_divided_by_zero_is_refused(act: object) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        act(mq.tensor([1]))


def test_T31_a_negative_integer_power_is_refused_as_a_number_only() -> None:
    with pytest.raises(RuntimeError, match="negative integer powers"):
        mq.tensor([2]) ** -1
    assert (mq.tensor([1, 2, -1]) ** mq.tensor([-1, -1, -3])).tolist() == [1, 0, -1]


def test_T32_bools_add_by_or_and_multiply_by_and() -> None:
    x, y = mq.tensor([True, False]), mq.tensor([True, True])
    assert (x + y).tolist() == [True, True]
    assert (x * y).tolist() == [True, False]


def test_T32_bools_are_not_subtracted() -> None:
    x = mq.tensor([True])
    for act in (lambda: x - x, lambda: 1 - x, lambda: -x, lambda: x.sub_(1)):
        with pytest.raises(RuntimeError, match=r"~|\^"):
            act()


@pytest.mark.parametrize("alpha", [2.0, True])
def test_T32_alpha_must_fit_the_type_added_in(alpha: object) -> None:
    with pytest.raises(RuntimeError, match="alpha"):
        mq.add(mq.tensor([1]), mq.tensor([1]), alpha=alpha)


def test_T33_the_default_dtype_is_asked_at_each_call() -> None:
    x = mq.ones(2, dtype=mq.int64)
    assert (x / 2).dtype is mq.float32
    mq.set_default_dtype(mq.float64)
    try:
        assert (x / 2).dtype is mq.float64
        assert (x * 2.5).numpy().dtype == np.float64
    finally:
        mq.set_default_dtype(mq.float32)


def test_T34_integers_wrap() -> None:
    assert (mq.tensor([44], dtype=mq.uint8) + 300).tolist() == [88]
    assert (mq.tensor([0], dtype=mq.uint8) - 1).tolist() == [255]
    assert (mq.tensor([44], dtype=mq.uint8) == 300).tolist() == [True]


def test_T34_an_in_place_result_must_fit_its_category() -> None:
    with pytest.raises(RuntimeError, match="Float can't be cast to the desired output type Long"):
        mq.tensor([1]).add_(1.5)


def test_T36_an_in_place_target_is_never_stretched() -> None:
    with pytest.raises(RuntimeError, match=r"\[2\].*\[2, 2\]"):
        mq.ones(2).add_(mq.ones(2, 2))


def test_T36_sizes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(RuntimeError, match=r"tensor a \(3\).*tensor b \(4\).*dimension 1"):
        mq.ones(2, 3) + mq.ones(2, 4)


def test_T37_a_number_spoils_the_common_format() -> None:
    y = mq.empty_strided((2, 3, 1, 1), (3, 1, 3, 3))
    assert (-y).stride() == (3, 1, 1, 1)
    assert (y + 1).stride() == (3, 1, 3, 3)


def test_T40_where_follows_its_operands_and_masked_fill_does_not() -> None:
    x = mq.ones(3, 4).t()
    mask = x > 0
    assert mq.where(mask, x, x).stride() == (1, 4)
    assert x.masked_fill(mask, 0).stride() == (3, 1)


def test_T41_an_expanded_target_is_refused() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        mq.ones(1).expand(3).add_(1)


def test_add_takes_two_numbers() -> None:
    assert mq.add(1, 2).item() == 3
    assert mq.ops.aten.div.Tensor(1, 2).item() == 0.5


def test_floating_point_errors_pass_in_silence() -> None:
    x = mq.tensor([0.0, float("inf"), 3e38])
    assert (x / 0).isnan().tolist() == [True, False, False]
    assert (x - x).isnan().tolist() == [False, True, False]
    assert (x * 10).tolist()[2] == float("inf")
    assert np.geterr()["divide"] == "warn"


def test_half_types_are_computed_in_float32_and_rounded_once() -> None:
    x = mq.tensor([256.0], dtype=mq.bfloat16)
    assert mq.add(x, x, alpha=0.001).item() == 256.0
    assert mq.exp(mq.tensor([0.1], dtype=mq.float16)).dtype is mq.float16


def test_maximum_keeps_nan_and_fmax_loses_it() -> None:
    x, y = mq.tensor([float("nan")]), mq.tensor([1.0])
    assert mq.maximum(x, y).isnan().item()
    assert mq.fmax(x, y).item() == 1.0


def test_clamp_without_bounds_is_refused() -> None:
    with pytest.raises(RuntimeError, match="must not be None"):
        mq.ones(2).clamp()


def test_clamp_of_ints_by_a_float_gives_floats() -> None:
    assert mq.tensor([1, 2]).clamp(0.5, 1.5).tolist() == [1.0, 1.5]


def test_masked_fill_writes_in_place_through_a_broadcast_mask() -> None:
    x = mq.zeros(2, 2)
    x.masked_fill_(mq.tensor([True, False]), 3)
    assert x.tolist() == [[3, 0], [3, 0]]


def test_where_refuses_a_condition_of_integers() -> None:
    with pytest.raises(RuntimeError, match="boolean tensor"):
        mq.where(mq.tensor([1]), mq.ones(1), mq.ones(1))


def test_shifts_by_too_much_leave_nothing_or_the_sign() -> None:
    x = mq.tensor([1, -3], dtype=mq.int8)
    assert (x << 9).tolist() == [0, 0]
    assert (x >> 9).tolist() == [0, -1]


def test_a_result_in_place_of_its_operand_needs_no_copy() -> None:
    x = mq.ones(4)
    before = x.data_ptr()
    x.mul_(3).add_(x)
    assert x.tolist() == [6.0] * 4
    assert x.data_ptr() == before


def test_an_operand_that_overlaps_its_target_is_read_before_it_is_written() -> None:
    x = mq.arange(9.0).reshape(3, 3)
    expected = (x + x.t()).tolist()
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(x.t())
    assert mq.add(x, x.clone().t(), out=x).tolist() == expected


@given(
    hnp.arrays(np.int8, (3,)),
    hnp.arrays(np.int8, (3,), elements=st.integers(-128, 127).filter(bool)),
)
def test_T31_quotient_and_remainder_restore_the_dividend(a: object, b: object) -> None:
    x, y = mq.from_numpy(a).to(mq.int64), mq.from_numpy(b).to(mq.int64)
    assert ((x // y) * y + x % y).equal(x)
    assert (mq.div(x, y, rounding_mode="trunc") * y + mq.fmod(x, y)).equal(x)


@given(hnp.arrays(np.float32, (4,)), hnp.arrays(np.float32, (4,)))
def test_relations_are_each_others_complement(a: object, b: object) -> None:
    x, y = mq.from_numpy(a), mq.from_numpy(b)
    unordered = x.isnan() | y.isnan()
    assert (x < y).logical_xor(x >= y).logical_or(unordered).all().item()
    assert (x == y).logical_not().equal(x != y)


def test_polygamma_of_a_large_order_is_infinite():
    assert mq.polygamma(70_000, mq.tensor([1.0, 0.5])).tolist() == [-np.inf, -np.inf]
    assert mq.polygamma(200, mq.tensor([1.0])).item() == -np.inf


def test_gradient_by_a_complex_exponent_is_zero_where_zero_is_raised_to_a_positive_number() -> None:
    exponent = mq.tensor([2 + 0j, 1 + 1j], dtype=mq.complex128).requires_grad_()
    (flat,) = mq.autograd.grad((0.0 ** exponent[:1]).real.sum(), exponent)
    np.testing.assert_array_equal(flat.numpy(), [0, 0])
    base = mq.tensor([0.0, 2.0], dtype=mq.float64)
    (found,) = mq.autograd.grad((base**exponent).real.sum(), exponent)
    expected = np.conj(np.log(2) * 2 ** (1 + 1j))
    np.testing.assert_allclose(found.numpy(), [0, expected])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_of_fakes_are_found_outside_of_their_mode(device: str) -> None:
    with mq.FakeTensorMode():
        x = mq.ones(3, device=device, requires_grad=True)
    out = mq.where(x > 0, x.clamp(0, 1), x)
    (found,) = mq.autograd.grad(out.sum(), x)
    assert (type(found), found.shape, found.device.type) == (mq.FakeTensor, (3,), device)


def test_complex_numbers_to_tensors_of_whole_exponents_are_exponentials() -> None:
    """A root of unity is not exactly -1 at half its order, so ``1 + root`` can be divided by."""
    root = mq.tensor(np.exp(-2j * np.pi / 12).astype(np.complex64))
    half = root ** mq.arange(7)
    assert 0 < abs(complex(half[-1]) + 1) < 1e-6
    assert (mq.tensor([3j, 0j]) ** 1).tolist() == [3j, 0j]
    assert (mq.tensor([3j, 0j]) ** 0).tolist() == [1, 1]
