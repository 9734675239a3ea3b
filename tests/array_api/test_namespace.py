"""The array API standard's namespace, where it differs from PyTorch's functions."""

import inspect
import math

import numpy as np
import pytest

import maquette as mq
import maquette.array_api as xp


def test_a_tensor_tells_its_namespace() -> None:
    assert mq.ones(2).__array_namespace__(api_version="2024.12") is xp


def test_a_version_that_is_not_here_is_refused() -> None:
    with pytest.raises(ValueError, match=r"up to 2024\.12"):
        mq.ones(2).__array_namespace__(api_version="2099.12")


def test_every_listed_name_is_there_and_every_function_says_what_it_does() -> None:
    missing = [n for n in xp.__all__ if not hasattr(xp, n)]
    functions = [getattr(xp, n) for n in xp.__all__ if inspect.isfunction(getattr(xp, n))]
    silent = [f.__name__ for f in functions if not f.__doc__]
    assert (missing, silent) == ([], [])
    assert len(functions) > 120


def test_an_array_without_dimensions_promotes_as_any_other() -> None:
    single = mq.tensor(1.0, dtype=mq.float64)
    assert xp.add(mq.ones(2, dtype=mq.float32), single).dtype is mq.float64
    assert (mq.ones(2, dtype=mq.float32) + single).dtype is mq.float32  # PyTorch's rule


@pytest.mark.parametrize("number", [1.5, 2j])
def test_a_number_of_a_higher_kind_is_refused_beside_integers(number: complex) -> None:
    with pytest.raises(TypeError, match="astype"):
        xp.add(mq.ones(2, dtype=mq.int64), number)


def test_numbers_alone_are_refused() -> None:
    with pytest.raises(TypeError, match="at least one array"):
        xp.add(1, 2)


def test_booleans_and_numbers_do_not_promote() -> None:
    with pytest.raises(TypeError, match="one kind"):
        xp.result_type(mq.bool, mq.int64)
    assert not xp.can_cast(mq.bool, mq.int64)


def test_complex_arrays_are_not_cast_to_real_ones_in_silence() -> None:
    with pytest.raises(TypeError, match="real"):
        xp.astype(mq.ones(2, dtype=mq.complex64), mq.float32)


def test_limits_tell_the_dtype_itself() -> None:
    assert xp.finfo(mq.complex64).dtype is mq.float32
    assert xp.iinfo(mq.ones(1, dtype=mq.int8)).dtype is mq.int8


def test_each_nan_is_a_value_of_its_own() -> None:
    found = xp.unique_all(mq.tensor([math.nan, 1.0, math.nan, 1.0]))
    assert found.counts.tolist() == [2, 1, 1]
    assert found.indices.tolist() == [1, 0, 2]
    assert found.inverse_indices.tolist() == [1, 0, 2, 0]


def test_the_variance_of_one_nan_is_nan() -> None:
    assert xp.isnan(xp.var(mq.tensor(math.nan)))


def test_the_sign_of_nan_is_nan() -> None:
    assert xp.isnan(xp.sign(mq.tensor([math.nan]))).all()


def test_expm1_of_complex_infinities_has_the_real_limit() -> None:
    assert xp.expm1(mq.tensor([complex(-math.inf, math.nan)])).real.tolist() == [-1.0]


def test_running_sums_may_begin_before_the_first_element() -> None:
    assert xp.cumulative_sum(mq.tensor([1, 2]), include_initial=True).tolist() == [0, 1, 3]


def test_no_axis_at_all_leaves_elements_as_they_are() -> None:
    x = mq.tensor([[1, 2]], dtype=mq.int8)
    assert xp.sum(x, axis=()).dtype is mq.int64
    assert xp.max(x, axis=()).tolist() == [[1, 2]]


def test_take_counts_negative_positions_from_the_end() -> None:
    x = mq.tensor([[1, 2, 3], [4, 5, 6]])
    assert xp.take(x, mq.tensor([-1]), axis=1).tolist() == [[3], [6]]
    assert xp.take_along_axis(x, mq.tensor([[-1], [0]])).tolist() == [[3], [4]]


def test_reshape_may_be_told_not_to_copy() -> None:
    assert xp.reshape(mq.ones(2, 3), (6,), copy=False).shape == (6,)
    with pytest.raises(ValueError, match="copy"):
        xp.reshape(mq.ones(2, 3).mT, (6,), copy=False)


def test_squeezing_an_axis_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="size 1"):
        xp.squeeze(mq.ones(2, 1), 0)


def test_solve_takes_a_vector_only_where_it_has_one_axis() -> None:
    eye = mq.eye(2).expand(3, 2, 2)
    assert xp.linalg.solve(eye, mq.ones(2)).shape == (3, 2)
    assert xp.linalg.solve(mq.eye(2), mq.ones(3, 2, 1)).shape == (3, 2, 1)


def test_to_device_is_to() -> None:
    x = mq.ones(2)
    assert x.to_device("cpu") is x


@pytest.mark.parametrize("end", [float("inf"), float("-inf")])
@pytest.mark.parametrize("imaginary", [2.0, -2.0, float("inf")])
def test_tanh_of_an_infinite_real_part_has_an_imaginary_zero_of_the_same_sign(
    end: float, imaginary: float
) -> None:
    found = xp.tanh(mq.tensor([complex(end, imaginary)]))
    expected = complex(1.0 if end > 0 else -1.0, 0.0 if imaginary > 0 else -0.0)
    assert str(found.item()) == str(expected)


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (mq.uint8, mq.uint32, mq.uint32),
        (mq.uint16, mq.uint64, mq.uint64),
        (mq.uint16, mq.int8, mq.int32),
        (mq.uint32, mq.int64, mq.int64),
        (mq.uint8, mq.int8, mq.int16),
        (mq.uint64, mq.float32, mq.float32),
        (mq.uint16, mq.complex64, mq.complex64),
    ],
)
def test_unsigned_dtypes_promote_as_the_standard_says(
    one: mq.dtype, other: mq.dtype, joined: mq.dtype
) -> None:
    assert xp.result_type(one, other) is xp.result_type(other, one) is joined
    assert xp.add(mq.ones(2, dtype=one), mq.ones(2, dtype=other)).dtype is joined
    assert xp.can_cast(one, joined)


def test_no_dtype_holds_uint64_and_a_signed_one() -> None:
    with pytest.raises(TypeError, match="hold"):
        xp.result_type(mq.uint64, mq.int8)
    assert not xp.can_cast(mq.uint64, mq.int64)


def test_every_dtype_of_the_standard_is_a_name_and_told_by_its_kind() -> None:
    told = xp.__array_namespace_info__().dtypes(kind="unsigned integer")
    assert list(told) == ["uint8", "uint16", "uint32", "uint64"]
    assert all(getattr(xp, name) is dtype for name, dtype in told.items())


def test_sums_of_unsigned_integers_are_unsigned_and_a_dtype_that_is_asked_for_is_kept() -> None:
    x = mq.tensor([200, 200], dtype=mq.uint8)
    assert xp.sum(x).dtype is xp.prod(x).dtype is xp.cumulative_sum(x).dtype is mq.uint64
    assert xp.prod(x, dtype=mq.uint8).dtype is mq.uint8


def test_quotients_of_infinities_are_rounded_down_not_lost() -> None:
    end = math.inf
    found = xp.floor_divide(
        mq.tensor([end, end, -end, 1.0, -1.0]), mq.tensor([2, -2, 2, -end, end])
    )
    assert found.tolist() == [end, -end, -end, 0.0, 0.0]
    assert xp.signbit(found).tolist() == [False, True, True, True, True]


def test_a_remainder_of_zero_has_the_sign_of_the_divisor() -> None:
    found = xp.remainder(mq.tensor([-0.0, 0.0, 4.0]), mq.tensor([2.0, -2.0, -2.0]))
    assert xp.signbit(found).tolist() == [False, True, True]


def test_cross_products_broadcast() -> None:
    found = xp.linalg.cross(mq.ones(0, 3), mq.ones(3))
    assert found.shape == (0, 3)


def test_an_array_that_is_read_backwards_is_copied_where_it_may_be() -> None:
    backwards = np.arange(3)[::-1]
    assert xp.asarray(backwards).tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="negative"):
        xp.asarray(backwards, copy=False)
