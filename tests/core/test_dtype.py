"""Element types: facts, promotion, defaults, limits."""

import copy
import pickle
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core import dtype as dt
from maquette.core.meta import TensorMeta

dtypes = st.sampled_from(dt.all_dtypes)


def tensor(dtype: dt.dtype) -> TensorMeta:
    """A tensor with a dimension."""
    return TensorMeta.of(dtype, (2,))


def scalar(dtype: dt.dtype) -> TensorMeta:
    """A 0-dim tensor."""
    return TensorMeta.of(dtype, ())


@pytest.fixture
def default_dtype() -> Iterator[None]:
    before = dt.get_default_dtype()
    yield
    dt.set_default_dtype(before)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        (dt.uint8, dt.int8, dt.int16),
        (dt.uint8, dt.int64, dt.int64),
        (dt.int64, dt.float16, dt.float16),
        (dt.float16, dt.bfloat16, dt.float32),
        (dt.bfloat16, dt.complex32, dt.complex64),
        (dt.float16, dt.complex32, dt.complex32),
        (dt.float64, dt.complex64, dt.complex128),
        (dt.bool, dt.uint8, dt.uint8),
        (dt.uint16, dt.float16, dt.float16),
        (dt.uint32, dt.uint32, dt.uint32),
    ],
)
def test_T30_promote_types(a: dt.dtype, b: dt.dtype, expected: dt.dtype) -> None:
    assert dt.promote_types(a, b) is expected


@pytest.mark.parametrize(
    "a, b",
    [
        (dt.uint16, dt.int64),
        (dt.uint16, dt.uint32),
        (dt.uint64, dt.bool),
        (dt.uint16, dt.complex64),
        (dt.float8_e5m2, dt.float32),
        (dt.float8_e5m2, dt.float8_e4m3fn),
    ],
)
def test_T30_promote_types_refuses_and_names_both(a: dt.dtype, b: dt.dtype) -> None:
    with pytest.raises(RuntimeError, match=f"{a.scalar_name} and {b.scalar_name}"):
        dt.promote_types(a, b)


@given(dtypes, dtypes)
def test_T30_promote_types_is_symmetric_and_loses_no_category(a: dt.dtype, b: dt.dtype) -> None:
    try:
        promoted = dt.promote_types(a, b)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            dt.promote_types(b, a)
        return
    assert promoted is dt.promote_types(b, a)
    assert promoted.category == max(a.category, b.category)


@given(
    st.lists(
        st.sampled_from([dt.bool, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64]),
        min_size=2,
        max_size=2,
    )
)
def test_T30_integers_promote_as_in_numpy(pair: list[dt.dtype]) -> None:
    a, b = pair
    expected = np.promote_types(a.numpy, b.numpy)
    assert dt.promote_types(a, b).numpy == expected


@pytest.mark.parametrize(
    "operands, expected",
    [
        ([tensor(dt.int8), scalar(dt.int64)], dt.int8),
        ([tensor(dt.int8), scalar(dt.float64)], dt.float64),
        ([tensor(dt.float32), scalar(dt.float64)], dt.float32),
        ([scalar(dt.int8), scalar(dt.int64)], dt.int64),
        ([tensor(dt.bool), scalar(dt.uint8), 3], dt.uint8),
    ],
)
def test_T28_a_weaker_class_counts_if_its_category_is_higher(
    operands: list[TensorMeta | int], expected: dt.dtype
) -> None:
    assert dt.result_type_of(operands) is expected


@pytest.mark.parametrize(
    "operands, expected",
    [
        ([tensor(dt.int8), 1.0], dt.float32),
        ([tensor(dt.int8), 1], dt.int8),
        ([tensor(dt.bool), 1], dt.int64),
        ([tensor(dt.float16), 1.0], dt.float16),
        ([tensor(dt.float16), 1j], dt.complex32),
        ([tensor(dt.bfloat16), 1j], dt.complex64),
        ([tensor(dt.float64), 1j], dt.complex128),
        ([tensor(dt.float32), scalar(dt.complex128)], dt.complex64),
        ([tensor(dt.uint64), 1j], dt.complex64),
        ([True, 2], dt.int64),
        ([1, 2.0], dt.float32),
    ],
)
def test_T29_numbers_stand_for_default_types(
    operands: list[TensorMeta | complex], expected: dt.dtype
) -> None:
    assert dt.result_type_of(operands) is expected


def test_T28_result_type_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one operand"):
        dt.result_type_of([])


def test_T29_number_dtype_refuses_what_is_no_number() -> None:
    with pytest.raises(TypeError, match="got str"):
        dt.number_dtype("1")  # type: ignore[arg-type]


@pytest.mark.usefixtures("default_dtype")
def test_T33_default_dtype_rules_numbers_and_complex() -> None:
    dt.set_default_dtype(dt.float64)
    assert dt.get_default_dtype() is dt.float64
    assert dt.default_complex_dtype() is dt.complex128
    assert dt.result_type_of([tensor(dt.int32), 1.0]) is dt.float64
    assert dt.result_type_of([tensor(dt.float32), 1.0]) is dt.float32


@pytest.mark.parametrize("refused", [dt.int64, dt.bool, dt.complex64, dt.float8_e5m2, "float64"])
def test_T33_default_dtype_must_be_a_float(refused: dt.dtype) -> None:
    with pytest.raises(TypeError, match="only floating-point types"):
        dt.set_default_dtype(refused)


@given(dtypes, dtypes)
def test_T34_can_cast_forbids_only_a_lower_category(a: dt.dtype, b: dt.dtype) -> None:
    assert dt.can_cast(a, b) == (b.category >= a.category)


def test_T34_a_float_cannot_be_cast_to_an_int() -> None:
    assert not dt.can_cast(dt.float32, dt.int64)
    assert dt.can_cast(dt.int64, dt.uint8)
    with pytest.raises(TypeError, match="two dtypes"):
        dt.can_cast(dt.int64, "uint8")


@given(dtypes)
def test_a_dtype_is_one_object_for_life(dtype: dt.dtype) -> None:
    assert dt.from_code(dtype.code) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@given(dtypes)
def test_a_dtype_and_numpys_agree(dtype: dt.dtype) -> None:
    assert dtype.numpy.itemsize == dtype.itemsize
    assert dt.from_numpy_dtype(dtype.numpy) is dtype


def test_bfloat16_is_ml_dtypes_own() -> None:
    assert dt.bfloat16.numpy == np.dtype(ml_dtypes.bfloat16)


def test_T50_numpy_types_without_counterpart_are_refused() -> None:
    with pytest.raises(TypeError, match=r"datetime64.*supported types are"):
        dt.from_numpy_dtype("datetime64[s]")
    with pytest.raises(ValueError, match="byte order"):
        dt.from_numpy_dtype(np.dtype(np.float32).newbyteorder())


def test_a_dtype_prints_as_users_write_it() -> None:
    assert repr(dt.float32) == "torch.float32"
    assert dt.double is dt.float64
    assert dt.cfloat is dt.complex64


def test_a_dtype_is_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        dt.float32.itemsize = 8


def test_complex_and_real_counterparts() -> None:
    assert dt.complex64.to_real() is dt.float32
    assert dt.int32.to_real() is dt.int32
    assert dt.bfloat16.to_complex() is dt.complex64
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Int"):
        dt.int32.to_complex()


def test_from_code_refuses_an_unknown_number() -> None:
    with pytest.raises(ValueError, match="99 is no ScalarType"):
        dt.from_code(99)


@pytest.mark.parametrize(
    "dtype",
    [
        dt.float16,
        dt.bfloat16,
        dt.float32,
        dt.float64,
        dt.float8_e5m2,
        dt.float8_e4m3fn,
        dt.float8_e5m2fnuz,
        dt.float8_e4m3fnuz,
    ],
)
def test_finfo_agrees_with_ml_dtypes(dtype: dt.dtype) -> None:
    ours, theirs = dt.finfo(dtype), ml_dtypes.finfo(dtype.numpy)
    for name in ("bits", "max", "min", "eps", "tiny", "smallest_normal"):
        assert getattr(ours, name) == float(getattr(theirs, name)), name


@pytest.mark.parametrize("dtype", [each for each in dt.all_dtypes if each.category == 1])
def test_iinfo_agrees_with_numpy(dtype: dt.dtype) -> None:
    ours, theirs = dt.iinfo(dtype), np.iinfo(dtype.numpy)
    assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)


def test_limits_are_of_the_right_kind() -> None:
    assert dt.finfo().dtype == "float32"
    assert dt.finfo(dt.complex128) == dt.finfo(dt.float64)
    with pytest.raises(TypeError, match="iinfo"):
        dt.finfo(dt.int8)
    with pytest.raises(TypeError, match="finfo"):
        dt.iinfo(dt.float32)
    with pytest.raises(TypeError, match="bool"):
        dt.iinfo(dt.bool)
