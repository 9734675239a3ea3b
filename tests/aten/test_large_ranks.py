"""Large arrays: ranks without sorting, bounds at once, rows gathered from flat memory."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq

ROWS, WIDTH, K = 20, 600, 7  # more elements than the plain functions are used for


def values(*, missing: bool = False) -> np.ndarray:
    made = np.random.default_rng(0).permuted(
        np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH), axis=1
    )
    if missing:
        made[3, [5, 17]] = np.nan
    return made


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_gives_the_ends_in_order(dim: int, largest: bool) -> None:
    given = values()
    found, places = mq.from_numpy(given).topk(K, dim, largest)
    order = np.argsort(-given if largest else given, axis=dim, kind="stable")
    expected = np.take(order, range(K), axis=dim)
    assert np.array_equal(places.numpy(), expected)
    assert np.array_equal(found.numpy(), np.take_along_axis(given, expected, dim))


def test_topk_takes_nan_for_the_largest() -> None:
    found, places = mq.from_numpy(values(missing=True)).topk(K, 1)
    assert np.isnan(found.numpy()[3, :2]).all()
    assert sorted(places.numpy()[3, :2].tolist()) == [5, 17]
    assert not np.isnan(found.numpy()[3, 2:]).any()


@pytest.mark.parametrize("dim", [0, 1])
def test_kthvalue_gives_the_element_of_a_rank(dim: int) -> None:
    given = values()
    found, places = mq.from_numpy(given).kthvalue(K, dim)
    assert np.array_equal(found.numpy(), np.sort(given, axis=dim).take(K - 1, axis=dim))
    taken = np.take_along_axis(given, np.expand_dims(places.numpy(), dim), dim)
    assert np.array_equal(taken.squeeze(dim), found.numpy())


def test_the_lower_median_is_found_and_nan_stays() -> None:
    given = values()
    assert np.array_equal(
        mq.from_numpy(given).median(1)[0].numpy(), np.sort(given, axis=1)[:, (WIDTH - 1) // 2]
    )
    found, places = mq.from_numpy(values(missing=True)).median(1)
    assert np.isnan(found.numpy()[3])
    assert places.numpy()[3] == 5
    assert not np.isnan(np.delete(found.numpy(), 3)).any()


@pytest.mark.parametrize("bounds", [(1000.0, 5000.0), (None, 5000.0), (1000.0, None), (9.0, 3.0)])
def test_clamp_keeps_nan_and_lets_the_upper_bound_win(bounds: tuple[float, float]) -> None:
    given = values(missing=True)
    expected = given
    if bounds[0] is not None:
        expected = np.maximum(expected, np.float32(bounds[0]))
    if bounds[1] is not None:
        expected = np.minimum(expected, np.float32(bounds[1]))
    found = mq.from_numpy(given).clamp(*bounds).numpy()
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("turned", [False, True])
def test_gather_takes_from_rows_of_any_layout(turned: bool) -> None:
    given = values()
    index = np.random.default_rng(1).integers(0, ROWS, (WIDTH, 9) if turned else (ROWS, WIDTH))
    source = mq.from_numpy(given).t() if turned else mq.from_numpy(given)
    expected = np.take_along_axis(given.T if turned else given, index, 1)
    assert np.array_equal(source.gather(1, mq.from_numpy(index)).numpy(), expected)


def test_the_norm_of_many_elements_is_theirs() -> None:
    given = values()
    exact = np.sqrt((given.astype(np.float64) ** 2).sum())
    assert mq.from_numpy(given).norm().item() == pytest.approx(exact, rel=1e-6)
    assert mq.from_numpy(values(missing=True)).norm().isnan()
