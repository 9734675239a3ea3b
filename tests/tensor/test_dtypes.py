"""Dtypes of results: promotion of tensors and numbers, casts, devices."""

from collections.abc import Iterator

import pytest

import maquette as mq
from maquette import Tensor


def full(dtype: mq.dtype, *shape: int) -> Tensor:
    return mq.ones(shape, dtype=dtype)


@pytest.fixture
def default_float64() -> Iterator[None]:
    """The default dtype is float64 during the test."""
    mq.set_default_dtype(mq.float64)
    yield
    mq.set_default_dtype(mq.float32)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        (full(mq.int8, 1), full(mq.int64), mq.int8),
        (full(mq.int8, 1), full(mq.float64), mq.float64),
        (full(mq.float32, 1), full(mq.float64), mq.float32),
        (full(mq.int8), full(mq.int64), mq.int64),
    ],
)
def test_T28_weaker_operands_matter_by_category(a: Tensor, b: Tensor, expected: mq.dtype) -> None:
    assert (a + b).dtype is (b + a).dtype is expected


@pytest.mark.parametrize(
    "a, b, expected",
    [
        (full(mq.int8), 1.0, mq.float32),
        (full(mq.float16), 1.0, mq.float16),
        (full(mq.bfloat16), 1j, mq.complex64),
        (full(mq.float32, 1), full(mq.complex128), mq.complex64),
        (full(mq.bool), 1, mq.int64),
    ],
)
def test_T29_numbers(a: Tensor, b: object, expected: mq.dtype) -> None:
    assert (a + b).dtype is expected


def test_T30_promote_types() -> None:
    assert mq.promote_types(mq.uint8, mq.int8) is mq.int16
    assert mq.promote_types(mq.uint16, mq.float16) is mq.float16
    assert mq.promote_types(mq.bfloat16, mq.complex32) is mq.complex64
    with pytest.raises(RuntimeError, match=r"uint16.*int64|int64.*uint16"):
        mq.promote_types(mq.uint16, mq.int64)


def test_T31_integers_divide_to_the_default_dtype() -> None:
    a = mq.tensor([4])
    assert (a / 2).dtype is a.sqrt().dtype is a.exp().dtype is mq.float32
    assert (a // 2).dtype is (a % 2).dtype is (a**2).dtype is mq.int64


@pytest.mark.parametrize("dtype", [mq.bool, mq.uint8, mq.int32])
def test_T31_integers_add_up_in_int64(dtype: mq.dtype) -> None:
    a = full(dtype, 3)
    assert a.sum().dtype is a.prod().dtype is a.cumsum(0).dtype is mq.int64


def test_T31_integers_refuse() -> None:
    a = mq.tensor([4])
    for refused in (a.mean, lambda: a**-1, lambda: a // 0):
        with pytest.raises(RuntimeError):
            refused()


def test_T31_signs_of_division() -> None:
    a = mq.tensor(-7)
    assert (a // 2).item() == -4
    assert (a % 3).item() == 2
    assert a.fmod(3).item() == -1


def test_T32_bools_are_or_and_and() -> None:
    t, f = mq.tensor(True), mq.tensor(False)
    assert (t + t).item() is True
    assert (t * f).item() is False


def test_T32_bools_do_not_subtract() -> None:
    t = mq.tensor(True)
    for refused in (lambda: 1 - t, lambda: t - t, lambda: t - 1, lambda: -t):
        with pytest.raises(RuntimeError, match=r"\^|~|logical_not|invert"):
            refused()


def test_T32_alpha_fits_the_result() -> None:
    with pytest.raises(RuntimeError, match="alpha"):
        mq.add(mq.tensor([1]), mq.tensor([1]), alpha=1.5)
    with pytest.raises(RuntimeError, match="alpha"):
        mq.add(mq.tensor([1.0]), mq.tensor([1.0]), alpha=True)


def test_T33_the_default_dtype_rules_literals(default_float64: None) -> None:
    assert mq.tensor([1.0]).dtype is mq.float64
    assert (mq.tensor([1]) / 2).dtype is mq.float64
    assert mq.tensor([1j]).dtype is mq.complex128
    assert (full(mq.float32, 1) + 1.0).dtype is mq.float32


def test_T33_only_floats_are_defaults() -> None:
    with pytest.raises(TypeError):
        mq.set_default_dtype(mq.int64)


def test_T33_tensor_takes_the_highest_type() -> None:
    assert mq.tensor([True, 2]).dtype is mq.int64
    assert mq.tensor([1, 2.0]).dtype is mq.float32
    assert mq.tensor([]).dtype is mq.float32


def test_T33_ragged_lists_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2.*dim 1.*1|dim 1"):
        mq.tensor([[1, 2], [3]])


def test_T34_results_must_fit_the_target() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)float.*(long|int64)"):
        mq.tensor([1]).add_(1.5)
    assert full(mq.uint8, 2).add_(mq.tensor([1, 2])).tolist() == [2, 3]
    assert not mq.can_cast(mq.float32, mq.int64)


def test_T34_integers_wrap() -> None:
    assert mq.tensor([100], dtype=mq.int8).add_(mq.tensor([200])).item() == 44
    assert (mq.tensor([0], dtype=mq.uint8) - 1).item() == 255


def test_T34_fills_out_of_range_are_refused() -> None:
    with pytest.raises(RuntimeError, match="overflow"):
        mq.zeros(1, dtype=mq.int8).fill_(300)
    with pytest.raises(RuntimeError, match="overflow"):
        mq.full((1,), 300, dtype=mq.int8)


def test_T34_floats_are_cut_off() -> None:
    assert mq.tensor([-1.7]).to(mq.int64).item() == -1


def test_T35_devices_do_not_mix() -> None:
    meta = mq.zeros(2, device="meta")
    assert (meta + mq.ones(())).is_meta
    with pytest.raises(RuntimeError, match=r"meta.*cpu|cpu.*meta"):
        meta + mq.ones(2)


def test_T35_copy_broadcasts_and_casts() -> None:
    assert mq.zeros(2, 2, dtype=mq.int64).copy_(mq.tensor([1.5, 2.5])).tolist() == [[1, 2]] * 2


def test_T35_complex_to_real_warns() -> None:
    with pytest.warns(UserWarning, match="imaginary"):
        mq.zeros(1).copy_(mq.tensor([1 + 2j]))
