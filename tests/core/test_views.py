"""View arithmetic, against NumPy's views of the array of addresses."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from maquette.core import views
from maquette.core.dtype import dtype, float16, float32, float64, int8, int32
from maquette.core.strides import contiguous_strides, numel

Ints = tuple[int, ...]
Geometry = tuple[Ints, Ints, int]
Addresses = npt.NDArray[np.int64]


@st.composite
def geometries(draw: st.DrawFn, min_ndim: int = 1, min_size: int = 0) -> Geometry:
    """A shape with any strides and offset."""
    shape = tuple(draw(st.lists(st.integers(min_size, 4), min_size=min_ndim, max_size=4)))
    if draw(st.booleans()):
        return shape, contiguous_strides(shape), draw(st.integers(0, 3))
    return shape, tuple(draw(st.integers(0, 12)) for _ in shape), draw(st.integers(0, 3))


def addresses(geometry: Geometry) -> Addresses:
    """Where each element lies."""
    shape, strides, offset = geometry
    places = np.full(shape, offset, dtype=np.int64)
    for index, stride in zip(np.indices(shape), strides):
        places += index * stride
    return places


def assert_views(ours: Geometry, expected: Addresses) -> None:
    found = addresses(ours)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def dims(geometry: Geometry) -> st.SearchStrategy[int]:
    return st.integers(-len(geometry[0]), len(geometry[0]) - 1)


@given(geometries(), st.data())
def test_T18_select(geometry: Geometry, data: st.DataObject) -> None:
    dim = data.draw(dims(geometry))
    size = geometry[0][dim]
    assume(size)
    index = data.draw(st.integers(-size, size - 1))
    expected = np.asarray(addresses(geometry).take(index, axis=dim))
    assert_views(views.select_view(*geometry, dim, index), expected)


@given(geometries(), st.data())
def test_T42_slices_clamp_as_in_python(geometry: Geometry, data: st.DataObject) -> None:
    dim = data.draw(dims(geometry))
    bound = st.none() | st.integers(-7, 7)
    start, end, step = data.draw(bound), data.draw(bound), data.draw(st.integers(1, 3))
    expected = np.moveaxis(np.moveaxis(addresses(geometry), dim, 0)[start:end:step], 0, dim)
    assert_views(views.slice_view(*geometry, dim, start, end, step), expected)


@given(geometries(), st.data())
def test_T18_permute_and_transpose(geometry: Geometry, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(geometry[0]))))
    assert_views(views.permute_view(*geometry, order), addresses(geometry).transpose(order))
    a, b = data.draw(dims(geometry)), data.draw(dims(geometry))
    assert_views(views.transpose_view(*geometry, a, b), addresses(geometry).swapaxes(a, b))


@given(geometries(), st.data())
def test_T21_unsqueeze_and_squeeze(geometry: Geometry, data: st.DataObject) -> None:
    ndim = len(geometry[0])
    dim = data.draw(st.integers(-ndim - 1, ndim))
    grown = views.unsqueeze_view(*geometry, dim)
    assert_views(grown, np.expand_dims(addresses(geometry), dim))
    assert views.squeeze_view(*grown, [dim]) == geometry
    assert_views(views.squeeze_view(*geometry), addresses(geometry).squeeze())


@given(geometries(), st.data())
def test_T21_expand(geometry: Geometry, data: st.DataObject) -> None:
    leading = data.draw(st.lists(st.integers(0, 3), max_size=2))
    stretched = [data.draw(st.integers(0, 3)) if size == 1 else size for size in geometry[0]]
    target = (*leading, *stretched)
    expected = np.broadcast_to(addresses(geometry), target)
    assert_views(views.expand_view(*geometry, target), expected)
    kept = [*leading, *[-1] * len(stretched)]
    assert views.expand_view(*geometry, kept)[0] == (*leading, *geometry[0])


@given(geometries(min_ndim=2), st.data())
def test_T21_diagonal(geometry: Geometry, data: st.DataObject) -> None:
    a, b = data.draw(st.permutations(range(len(geometry[0]))))[:2]
    diagonal = data.draw(st.integers(-5, 5))
    expected = addresses(geometry).diagonal(diagonal, a, b)
    assert_views(views.diagonal_view(*geometry, diagonal, a, b), expected)


@given(geometries(), st.data())
def test_T21_unfold(geometry: Geometry, data: st.DataObject) -> None:
    dim = data.draw(dims(geometry))
    whole = geometry[0][dim]
    assume(whole)
    size, step = data.draw(st.integers(1, whole)), data.draw(st.integers(1, 3))
    windows = np.lib.stride_tricks.sliding_window_view(addresses(geometry), size, axis=dim)
    expected = np.moveaxis(np.moveaxis(windows, dim % len(geometry[0]), 0)[::step], 0, dim)
    if dim < 0:  # the window's dimension is one more from the back
        expected = np.moveaxis(np.moveaxis(windows, dim - 1, 0)[::step], 0, dim - 1)
    assert_views(views.unfold_view(*geometry, dim, size, step), expected)


@st.composite
def factorizations(draw: st.DrawFn, count: int) -> Ints:
    """A shape of `count` elements."""
    shape: list[int] = []
    while count > 1:
        factor = draw(st.sampled_from([n for n in range(2, count + 1) if count % n == 0]))
        shape.append(factor)
        count //= factor
    for place in draw(st.lists(st.integers(0, len(shape)), max_size=2)):
        shape.insert(place, 1)
    return tuple(shape)


def is_affine(grid: Addresses) -> bool:
    """Whether strides exist that give these addresses."""
    first = grid.ravel()[0]
    steps = [
        int(np.moveaxis(grid, dim, 0)[1].ravel()[0] - first) if size > 1 else 0
        for dim, size in enumerate(grid.shape)
    ]
    return np.array_equal(addresses((grid.shape, tuple(steps), int(first))), grid)


@given(geometries(min_size=1), st.data())
def test_T20_view_finds_strides(geometry: Geometry, data: st.DataObject) -> None:
    shape, strides, offset = geometry
    new_shape = data.draw(factorizations(numel(shape)))
    found = views.view_strides(shape, strides, new_shape)
    expected = addresses(geometry).reshape(new_shape)
    if found is None:
        assert not is_affine(expected)
    else:
        assert_views((new_shape, found, offset), expected)


def test_T20_strides_of_a_view() -> None:
    assert views.view_strides((6, 4), (1, 6), (2, 3, 4)) == (3, 1, 6)
    assert views.view_strides((6, 4), (1, 6), (3, 8)) is None
    assert views.view_strides((4, 3), (0, 1), (2, 2, 3)) == (0, 0, 1)
    assert views.view_strides((), (), (1, 1)) == (1, 1)


def test_T20_an_empty_view_of_the_same_shape_keeps_strides() -> None:
    assert views.view_strides((0, 3), (7, 5), (0, 3)) == (7, 5)
    assert views.view_strides((0, 3), (7, 5), (3, 0)) == (1, 1)


def test_T20_minus_one_is_what_is_left() -> None:
    assert views.view_shape_infer([2, -1], 6, (6,)) == (2, 3)
    assert views.view_shape_infer([-1, 4], 0, (0, 3)) == (0, 4)
    assert views.view_shape_infer([], 1, (1,)) == ()


@pytest.mark.parametrize(
    "sizes, count, message",
    [
        ([-1, -1], 6, "only one dimension can be inferred"),
        ([0, -1], 0, "ambiguous"),
        ([0, -1], 6, r"shape '\[0, -1\]' is invalid for input of size 6"),
        ([2, 5], 6, r"shape '\[2, 5\]' is invalid for input of size 6"),
        ([-1, 4], 6, r"shape '\[-1, 4\]' is invalid"),
        ([3, -2], 6, r"invalid shape dimension -2 at index 1 of shape \[3, -2\]"),
    ],
)
def test_T20_shapes_that_do_not_fit(sizes: list[int], count: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        views.view_shape_infer(sizes, count, (count,))


def test_T21_new_dimensions_of_size_1() -> None:
    assert views.unsqueeze_view((3, 4, 5), (20, 5, 1), 0, 0)[1] == (60, 20, 5, 1)
    assert views.expand_view((3,), (1,), 0, (1, 3)) == ((1, 3), (3, 1), 0)
    assert views.expand_view((), (), 4, (1, 2)) == ((1, 2), (0, 0), 4)


def test_T21_unfold_and_a_diagonal_outside() -> None:
    assert views.unfold_view((8,), (1,), 0, 0, 3, 2) == ((3, 3), (2, 1), 0)
    assert views.unfold_view((), (), 5, 0, 1, 1) == ((1,), (1,), 5)
    assert views.diagonal_view((3, 3), (3, 1), 2, 5) == ((0,), (4,), 2)


M: Geometry = ((2, 3), (3, 1), 0)
SCALAR: Geometry = ((), (), 0)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: views.select_view(*M, 0, 5), IndexError, r"index 5 .* \[2, 3\] at dimension 0"),
        (lambda: views.select_view(*SCALAR, 0, 0), IndexError, "0-dim"),
        (lambda: views.slice_view(*M, 0, 0, 1, 0), RuntimeError, "step must be positive"),
        (lambda: views.slice_view(*SCALAR, 0), IndexError, "0-dim"),
        (lambda: views.permute_view(*M, [0]), RuntimeError, r"len\(dims\) = 1"),
        (lambda: views.permute_view(*M, [0, 0]), RuntimeError, "duplicate dims"),
        (lambda: views.expand_view(*M, [3]), RuntimeError, r"provided \(1\)"),
        (lambda: views.expand_view(*M, [3, 3]), RuntimeError, r"\(3\) must match .* \(2\)"),
        (lambda: views.expand_view(*M, [-1, 2, 3]), RuntimeError, "non-existing dimension 0"),
        (lambda: views.squeeze_view(*M, [0, -2]), RuntimeError, "multiple times"),
        (lambda: views.unfold_view(*M, 0, 3, 1), RuntimeError, "is 2 but size is 3"),
        (lambda: views.unfold_view(*M, 0, 1, 0), RuntimeError, "step is 0"),
        (lambda: views.unfold_view(*M, 0, -1, 1), RuntimeError, "size is -1"),
        (lambda: views.diagonal_view(*M, 0, 1, -1), RuntimeError, "identical 1, -1"),
        (lambda: views.transpose_view(*M, 0, 2), IndexError, "but got 2"),
    ],
)
def test_T18_what_a_view_refuses(
    call: Callable[[], Geometry], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_T7_as_strided_stays_in_the_storage() -> None:
    views.as_strided_check((3, 2), (1, 1), 0, 4, 16)
    views.as_strided_check((0,), (1,), 100, 4, 16)
    expected = r"\[3, 2\], strides \[2, 1\], storage offset 0, and itemsize 4 .* 24 .* size 16"
    with pytest.raises(RuntimeError, match=expected):
        views.as_strided_check((3, 2), (2, 1), 0, 4, 16)


@pytest.mark.parametrize(
    "shape, strides, offset, message",
    [
        ((2,), (1, 1), 0, "mismatch in length"),
        ((2,), (-1,), 0, r"Negative strides .* \[-1\]"),
        ((-2,), (1,), 0, r"got sizes: \[-2\]"),
        ((2,), (1,), -1, "storage offset -1"),
    ],
)
def test_T7_as_strided_wants_a_geometry(
    shape: Ints, strides: Ints, offset: int, message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        views.as_strided_check(shape, strides, offset, 4, 64)


def test_T22_view_dtype() -> None:
    assert views.view_dtype((2, 4), (4, 1), 2, float32, float64) == ((2, 2), (2, 1), 1)
    assert views.view_dtype((2, 4), (4, 1), 2, float32, float16) == ((2, 8), (8, 1), 4)
    assert views.view_dtype((), (), 3, float32, int32) == ((), (), 3)


@pytest.mark.parametrize(
    "geometry, new, message",
    [
        (((2, 3), (3, 1), 0), float64, r"size\(-1\) must be divisible by 2 .* got 3"),
        (((2, 2), (3, 1), 0), float64, r"stride\(0\) must be divisible by 2 .* got 3"),
        (((2, 2), (2, 1), 1), float64, r"storage_offset\(\) must be divisible by 2 .* got 1"),
        (((4, 2), (1, 4), 0), float64, r"stride\(-1\) must be 1 .* got 4"),
        (((4, 2), (1, 4), 0), int8, r"stride\(-1\) must be 1 to view Float as Char"),
        (((), (), 0), float64, r"dim\(\) cannot be 0"),
    ],
)
def test_T22_view_dtype_names_the_quantity(geometry: Geometry, new: dtype, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        views.view_dtype(*geometry, float32, new)
