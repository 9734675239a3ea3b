"""Stride arithmetic, against the addresses that the strides stand for."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core import layout
from maquette.core import strides as rules

Geometry = tuple[tuple[int, ...], tuple[int, ...]]


@st.composite
def geometries(draw: st.DrawFn, max_ndim: int = 4, min_size: int = 0) -> Geometry:
    """A shape with strides that are dense, padded, or anything."""
    shape = tuple(draw(st.lists(st.integers(min_size, 4), max_size=max_ndim)))
    if draw(st.booleans()):
        return shape, tuple(draw(st.integers(0, 12)) for _ in shape)
    strides = [0] * len(shape)
    running = 1
    for dim in draw(st.permutations(range(len(shape)))):
        strides[dim] = running
        running *= max(shape[dim], 1) * draw(st.sampled_from([1, 1, 1, 2]))
    return shape, tuple(strides)


def addresses(geometry: Geometry) -> npt.NDArray[np.int64]:
    """Where each element lies."""
    shape, strides = geometry
    places = np.zeros(shape, dtype=np.int64)
    for index, stride in zip(np.indices(shape), strides):
        places += index * stride
    return places


@given(geometries(min_size=1))
def test_T12_contiguous_means_consecutive_addresses(geometry: Geometry) -> None:
    found = addresses(geometry).ravel()
    assert rules.is_contiguous(*geometry) == np.array_equal(found, np.arange(found.size))


@given(geometries(min_size=1))
def test_T14_dense_means_no_gap_and_no_overlap(geometry: Geometry) -> None:
    found = np.sort(addresses(geometry), axis=None)
    assert rules.is_dense(*geometry) == np.array_equal(found, np.arange(found.size))


@given(geometries(), st.integers(0, 5))
def test_T2_storage_reaches_the_last_address(geometry: Geometry, offset: int) -> None:
    found = addresses(geometry) + offset
    expected = int(found.max()) + 1 if found.size else 0
    assert rules.storage_elements(*geometry, offset) == expected


@given(geometries())
def test_T11_contiguous_strides_are_contiguous(geometry: Geometry) -> None:
    shape, _ = geometry
    strides = rules.contiguous_strides(shape)
    assert rules.is_contiguous(shape, strides)
    assert all(stride > 0 for stride in strides)


def test_T11_a_size_of_0_counts_as_1() -> None:
    assert rules.contiguous_strides((2, 0, 4)) == (4, 4, 1)


def test_T12_strides_of_size_1_do_not_matter() -> None:
    assert rules.is_contiguous((1, 3), (7, 1))
    assert rules.is_contiguous((0, 3), (7, 5))
    assert not rules.is_contiguous((2, 3), (7, 1))


def test_T13_channels_last() -> None:
    assert rules.channels_last_strides((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert rules.channels_last_strides((2, 3, 4, 5, 6)) == (360, 1, 90, 18, 3)
    assert rules.is_channels_last((2, 3, 1, 1), (3, 1, 1, 1), 4)
    assert not rules.is_channels_last((0, 3, 4, 5), (60, 20, 5, 1), 4)
    assert not rules.is_channels_last((2, 3, 4), (12, 4, 1), 4)


def test_T14_dense() -> None:
    assert rules.is_dense((3, 2), (1, 3))
    assert not rules.is_dense((2, 2), (3, 1))
    assert not rules.is_dense((2, 3), (0, 1))


@given(geometries())
def test_T16_preserved_strides_are_dense_and_stay(geometry: Geometry) -> None:
    shape, _ = geometry
    kept = rules.preserve_strides(*geometry)
    assert rules.is_dense(shape, kept)
    assert rules.preserve_strides(shape, kept) == kept


@given(geometries(min_size=2))
def test_T16_preserved_strides_keep_the_order(geometry: Geometry) -> None:
    shape, strides = geometry
    kept = rules.preserve_strides(*geometry)
    if 0 in strides:
        return
    for a in range(len(shape)):
        for b in range(len(shape)):
            assert not strides[a] < strides[b] or kept[a] < kept[b]


@pytest.mark.parametrize(
    "shape, strides, expected",
    [
        ((2, 3, 4, 5), (60, 1, 15, 3), layout.channels_last),
        ((2, 3, 4, 5), (60, 20, 5, 1), layout.contiguous_format),
        ((2, 3, 1, 1), (3, 1, 1, 1), layout.contiguous_format),
        ((2, 3, 1, 1), (3, 1, 3, 3), layout.channels_last),
        ((2, 3, 4, 2), (60, 1, 15, 3), layout.channels_last),
        ((2, 3, 0, 2), (0, 1, 6, 3), layout.contiguous_format),
        ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3), layout.channels_last_3d),
        ((3, 4), (1, 3), layout.contiguous_format),
    ],
)
def test_T17_suggested_format(
    shape: tuple[int, ...], strides: tuple[int, ...], expected: layout.memory_format
) -> None:
    assert rules.suggested_format(shape, strides) is expected
