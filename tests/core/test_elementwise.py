"""The result of an elementwise operation."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core.device import device
from maquette.core.device_rules import DeviceMismatchError
from maquette.core.dtype import bool as bool_
from maquette.core.dtype import float32, int32
from maquette.core.elementwise import elementwise, elementwise_strides
from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides, is_dense

Ints = tuple[int, ...]


def f32(shape: Ints, strides: Ints | None = None) -> TensorMeta:
    return TensorMeta.of(float32, shape, strides)


def strides_of(*operands: TensorMeta | float) -> Ints:
    return elementwise(operands, float32, common_dtype=float32).strides


Y = f32((2, 3, 1, 1), (3, 1, 3, 3))


@pytest.mark.parametrize(
    "operands, expected",
    [([Y], (3, 1, 1, 1)), ([Y, Y], (3, 1, 1, 1)), ([Y, 1], (3, 1, 3, 3))],
)
def test_T37_a_number_spoils_the_fast_path(
    operands: list[TensorMeta | int], expected: Ints
) -> None:
    assert strides_of(*operands) == expected


@pytest.mark.parametrize(
    "operands, expected",
    [
        ([f32((2, 3, 3), (3, 0, 1)), f32((2, 3, 3), (3, 1, 6))], (9, 1, 3)),
        ([f32((2, 3, 3), (3, 1, 6)), f32((2, 3, 3), (3, 0, 1))], (3, 1, 6)),
        ([f32((4, 3), (1, 4)), f32((4, 3), (3, 1))], (1, 4)),
        ([f32((4, 3), (3, 1)), f32((4, 3), (1, 4))], (3, 1)),
        ([f32((2, 3), (1, 1)), 1], (1, 2)),
        ([f32((3, 2), (1, 1)), 1], (2, 1)),
    ],
)
def test_T38_dimensions_are_sorted_as_operands_order_them(
    operands: list[TensorMeta | int], expected: Ints
) -> None:
    assert strides_of(*operands) == expected


@pytest.mark.parametrize(
    "operands, expected",
    [
        ([f32((4, 5), (0, 1)), f32((4, 5), (1, 4))], (1, 4)),
        ([f32((4, 3), (1, 4)), f32((3,))], (1, 4)),
        ([f32((3,)), f32((4, 3), (1, 4))], (1, 4)),
        ([f32((3, 0, 2), (1, 3, 3)), 1], (1, 3, 0)),
        ([f32((3, 0, 2), (1, 3, 3))], (2, 2, 1)),
        ([f32((2, 3, 4, 5), (60, 1, 15, 3)), f32((2, 3, 4, 5))], (60, 1, 15, 3)),
        ([f32((2, 3, 4, 5)), f32((2, 3, 4, 5), (60, 1, 15, 3))], (60, 20, 5, 1)),
        ([TensorMeta.of(int32, (2, 4, 3), (0, 1, 4)), f32((2, 4, 3))], (12, 1, 4)),
    ],
)
def test_T39_cases(operands: list[TensorMeta | int], expected: Ints) -> None:
    assert strides_of(*operands) == expected


@st.composite
def same_shape_operands(draw: st.DrawFn) -> tuple[Ints, list[tuple[Ints, Ints]]]:
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    strides = st.tuples(*[st.integers(0, 12) for _ in shape])
    return shape, [(shape, each) for each in draw(st.lists(strides, min_size=1, max_size=3))]


@given(same_shape_operands())
def test_T38_the_result_is_dense(case: tuple[Ints, Sequence[tuple[Ints, Ints]]]) -> None:
    shape, operands = case
    assert is_dense(shape, elementwise_strides(shape, operands))


@given(same_shape_operands())
def test_T37_a_repeated_operand_changes_nothing(
    case: tuple[Ints, Sequence[tuple[Ints, Ints]]],
) -> None:
    shape, operands = case
    assert elementwise_strides(shape, operands) == elementwise_strides(shape, [*operands] * 2)


@given(st.lists(st.integers(0, 4), max_size=4).map(tuple), st.integers(1, 3))
def test_T37_contiguous_operands_give_a_contiguous_result(shape: Ints, count: int) -> None:
    metas = [TensorMeta.of(float32, shape, None, offset) for offset in range(count)]
    assert elementwise(metas, bool_) is TensorMeta.of(bool_, shape)
    strides = contiguous_strides(shape)
    assert elementwise_strides(shape, [(shape, strides)] * count) == strides


def test_T36_operands_broadcast() -> None:
    result = elementwise([f32((4, 1)), f32((3,)), 2.0], float32)
    assert result is f32((4, 3))
    with pytest.raises(RuntimeError, match=r"tensor a \(2\)"):
        elementwise([f32((2,)), f32((3,))], float32)


def test_T35_the_result_is_on_the_common_device() -> None:
    on_meta = f32((2,)).with_device(device("meta"))
    assert elementwise([f32(()), on_meta], float32) is on_meta
    with pytest.raises(DeviceMismatchError, match=r"cpu and meta.*mul"):
        elementwise([f32((2,)), on_meta], float32, op_name="mul")


def test_numbers_alone_make_a_0_dim_cpu_result() -> None:
    assert elementwise([1, 2.0], float32) is f32(())
