"""Order, rank, search, distinct values, and what is composed of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gradcheck import check_gradients
from hypothesis import given
from hypothesis import strategies as st
from op_log import operators_of

import maquette as mq

random = np.random.default_rng(3)
A = random.standard_normal((3, 4))
NAN = float("nan")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort(1)[0],
        lambda x: x.sort(0, True)[0],
        lambda x: x.topk(2, 1)[0],
        lambda x: x.kthvalue(2, 0)[0],
        lambda x: x.median(1)[0],
        lambda x: x.median(),
        lambda x: x.mode(1)[0],
        lambda x: x.msort(),
        lambda x: x.quantile(0.3, 1),
        lambda x: x.nanquantile(mq.tensor([0.2, 0.9], dtype=mq.float64), 0),
        lambda x: x.diff(2, 1),
        lambda x: mq.trapezoid(x, dx=0.5, dim=0),
        lambda x: mq.cumulative_trapezoid(x, mq.from_numpy(A[0].copy()), dim=1),
        lambda x: x.cov(),
        lambda x: x.corrcoef(),
        lambda x: x.renorm(2, 0, 0.9),
    ],
)
def test_selections_and_composites_are_finite_differences(function: Callable[..., object]) -> None:
    check_gradients(function, A)


def test_sort_is_stable_both_ways() -> None:
    x = mq.tensor([1, 0, 1, 0])
    assert x.sort()[1].tolist() == [1, 3, 0, 2]
    assert x.sort(descending=True)[1].tolist() == [0, 2, 1, 3]


def test_nan_is_the_greatest_value() -> None:
    x = mq.tensor([2.0, NAN, 1.0])
    assert x.sort()[1].tolist() == [2, 0, 1]
    assert x.topk(1)[1].tolist() == [1]
    assert x.median().isnan().item()
    assert x.nanmedian().item() == 1.0


def test_median_is_the_lower_of_two() -> None:
    assert mq.tensor([4.0, 1.0, 3.0, 2.0]).median().item() == 2.0


def test_topk_beyond_the_size_says_both() -> None:
    with pytest.raises(RuntimeError, match=r"takes k of the 3 elements .* got k=4"):
        mq.ones(3).topk(4)


@given(st.lists(st.integers(-3, 3), min_size=1))
def test_mode_is_the_most_frequent_least_value(values: list[int]) -> None:
    mode, index = mq.tensor(values).mode()
    best = max(values.count(v) for v in values)
    assert mode.item() == min(v for v in values if values.count(v) == best)
    assert values[int(index.item())] == mode.item()


@given(st.lists(st.floats(-4, 4, width=32)), st.lists(st.floats(-4, 4, width=32)))
def test_searchsorted_is_numpys(edges: list[float], values: list[float]) -> None:
    ordered, wanted = np.sort(np.array(edges, "f")), np.array(values, "f")
    for right in (False, True):
        found = mq.searchsorted(mq.from_numpy(ordered), mq.from_numpy(wanted), right=right)
        expected = np.searchsorted(ordered, wanted, "right" if right else "left")
        assert found.tolist() == expected.tolist()


def test_unique_gives_what_is_asked_for() -> None:
    x = mq.tensor([3, 1, 3, 2])
    assert x.unique().tolist() == [1, 2, 3]
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values[inverse].tolist() == x.tolist()
    assert counts.tolist() == [1, 1, 2]


def test_unique_consecutive_of_rows() -> None:
    x = mq.tensor([[1, 1], [1, 1], [2, 0], [1, 1]])
    assert x.unique_consecutive(dim=0).tolist() == [[1, 1], [2, 0], [1, 1]]


def test_unique_of_fakes_says_that_it_depends_on_data() -> None:
    with mq.FakeTensorMode():
        x = mq.zeros(4)
        with pytest.raises(RuntimeError, match="unique"):
            x.unique()


def test_fake_bincount_refuses_what_eager_refuses() -> None:
    with mq.FakeTensorMode():
        x = mq.zeros((2, 2), dtype=mq.int64)
    with pytest.raises(RuntimeError, match="1-d non-negative integral inputs"):
        x.bincount()


def test_one_hot_needs_no_data_when_told_the_classes() -> None:
    with mq.FakeTensorMode():
        x = mq.zeros(3, dtype=mq.int64)
        assert tuple(mq.one_hot(x, 5).shape) == (3, 5)
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        mq.one_hot(mq.tensor([5]), 5)


def test_one_hot_asks_data_once_for_both_ends_of_the_classes() -> None:
    x = mq.tensor([0, 2])
    asked = ["aminmax", "_local_scalar_dense", "_local_scalar_dense"]
    assert operators_of(lambda: mq.one_hot(x, 3)) == [*asked, "zeros", "unsqueeze", "scatter_"]


def test_one_hot_without_data_compares_with_each_class() -> None:
    with mq.FakeTensorMode():
        x = mq.zeros(3, dtype=mq.int64, device="cuda")
        assert operators_of(lambda: mq.one_hot(x, 2)) == ["arange", "unsqueeze", "eq", "_to_copy"]
        assert tuple(mq.one_hot(x, 0).shape) == (3, 0)


def test_histc_does_not_count_what_lies_outside() -> None:
    x = mq.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, NAN])
    assert x.histc(2, 0, 1).tolist() == [1, 2]


def test_norm_chooses_by_its_arguments() -> None:
    x = mq.from_numpy(A.copy())
    assert x.norm().item() == pytest.approx(np.linalg.norm(A))
    assert x.norm(1, 0).numpy() == pytest.approx(np.abs(A).sum(0))
    assert mq.linalg_norm(x, float("inf")).item() == pytest.approx(np.linalg.norm(A, np.inf))


# What PyTorch 2.13 selects on the cpu, of 2 and more equal elements.
@pytest.mark.parametrize(
    ("count", "k", "expected"),
    [
        (2, 2, [0, 1]),
        (4, 2, [2, 3]),
        (8, 5, [4, 7, 6, 5, 2]),
        (40, 3, [28, 26, 27]),
        (200, 3, [0, 1, 2]),  # by heaps, as few of many are
    ],
)
@pytest.mark.parametrize("largest", [True, False])
def test_topk_takes_those_of_equal_elements_that_pytorch_takes(count, k, expected, largest):
    equal = mq.zeros(3, count)
    assert mq.topk(equal, k, largest=largest).indices.tolist() == [expected] * 3
    assert mq.topk(equal.t(), k, 0, largest=largest).indices[:, 1].tolist() == expected
    assert mq.topk(equal / 0, k, largest=largest).indices[0].tolist() == expected  # NaN


def test_topk_chooses_among_elements_that_tie_with_the_last_one_taken():
    found = mq.topk(mq.tensor([1.0, 3.0, 1.0, 1.0, 1.0]), 2)
    assert (found.values.tolist(), found.indices.tolist()) == ([3.0, 1.0], [1, 4])


@pytest.mark.parametrize("k", [1, 40, 700])
def test_topk_of_many_equal_elements_is_sorted_and_takes_each_once(k):
    numbers = mq.arange(700) % 7
    values, indices = mq.topk(numbers, k)
    assert values.equal(numbers.sort(descending=True).values[:k])
    assert indices.unique().numel() == k
    assert numbers[indices].equal(values)
