"""Broadcasting and dimension numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core.broadcast import broadcast_shapes, expand_strides, wrap_dim, wrap_dims

shapes = st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=4).map(tuple)


@given(st.lists(shapes, min_size=1, max_size=3))
def test_T36_shapes_broadcast_as_in_numpy(some: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*some)
    except ValueError:
        with pytest.raises(RuntimeError, match="must match the size"):
            broadcast_shapes(*some)
        return
    assert broadcast_shapes(*some) == expected


def test_T36_the_error_names_sizes_and_dimension() -> None:
    expected = r"tensor a \(2\) must match .* tensor b \(0\) at non-singleton dimension 1"
    with pytest.raises(RuntimeError, match=expected):
        broadcast_shapes((5, 2), (0,))


def test_T38_expanded_strides() -> None:
    assert expand_strides((3,), (1,), (2, 3)) == (0, 1)
    assert expand_strides((1, 3), (7, 1), (2, 3)) == (0, 1)
    assert expand_strides((1, 3), (7, 1), (1, 3)) == (7, 1)


@given(st.integers(-6, 6), st.integers(0, 4))
def test_T9_dimensions_wrap_as_list_indices_do(dim: int, ndim: int) -> None:
    dims = list(range(ndim or 1))
    if -len(dims) <= dim < len(dims):
        assert wrap_dim(dim, ndim) == dims[dim]
        return
    with pytest.raises(IndexError, match=rf"\[{-len(dims)}, {len(dims) - 1}\], but got {dim}"):
        wrap_dim(dim, ndim)


def test_T9_a_repeated_dimension_is_refused() -> None:
    assert wrap_dims((-1, 0), 3) == (2, 0)
    with pytest.raises(RuntimeError, match="dim 2 appears multiple times"):
        wrap_dims((0, 2, -1), 3)
