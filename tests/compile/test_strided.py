"""Views of row-major arrays, against NumPy's strides."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.compile.strided import viewed
from maquette.core.dtype import int64
from maquette.core.meta import TensorMeta


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_strided_view_is_what_numpy_shows(data):
    size = data.draw(st.integers(1, 60))
    ndim = data.draw(st.integers(0, 4))
    shape = tuple(data.draw(st.integers(1, 4)) for _ in range(ndim))
    strides = tuple(data.draw(st.integers(0, 12)) for _ in range(ndim))
    reach = sum((n - 1) * s for n, s in zip(shape, strides))
    if reach >= size:
        return
    offset = data.draw(st.integers(0, size - 1 - reach))
    array = np.arange(size)
    meta = TensorMeta.of(int64, shape, strides, offset)
    bytes_ = [s * 8 for s in strides]
    expected = np.lib.stride_tricks.as_strided(array[offset:], shape, bytes_)
    assert np.array_equal(viewed(np, array, meta), expected)


def test_slices_and_transpositions_gather_nothing():
    class Recording:
        def __getattr__(self, name):
            return getattr(np, name)

    array = np.arange(24).reshape(2, 3, 4)
    meta = TensorMeta.of(int64, (4, 2, 2), (1, 12, 4), 4)
    found = viewed(Recording(), array, meta)
    assert np.array_equal(found, array[:, 1:].transpose(2, 0, 1))
    assert np.shares_memory(found, array)
