"""Pooling: values, indices, gradients, layouts, refusals."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients
from op_log import operators_of

import maquette as mq

random = np.random.default_rng(9)
aten = mq.ops.aten
X = random.permutation(2 * 3 * 7 * 8).reshape(2, 3, 7, 8) / 10  # no two alike: maxima differentiate
VOLUME = random.permutation(2 * 4 * 5 * 6).reshape(2, 4, 5, 6) / 10


def tensor(array: object) -> mq.Tensor:
    return mq.from_numpy(np.array(array, dtype=np.float64))


POOLS = [
    lambda x: aten.max_pool2d_with_indices(x, [3, 2], [2, 1], [1, 1], [1, 2], True)[0],
    lambda x: aten.avg_pool2d(x, [3, 2], [2, 2], [1, 1], True, False),
    lambda x: aten.avg_pool2d(x, [3, 3], [], [1, 0], False, True),
    lambda x: aten.avg_pool2d(x, [2, 2], [1, 1], [0, 0], False, True, 3),
    lambda x: aten.adaptive_avg_pool2d(x, [3, 5]),
    lambda x: aten.adaptive_avg_pool2d(x, [1, 1]),
    lambda x: aten.adaptive_max_pool2d(x, [3, 5])[0],
]
VOLUME_POOLS = [
    lambda x: aten.max_pool3d_with_indices(x, [2, 3, 2], [1, 2, 2], [1, 1, 0])[0],
    lambda x: aten.avg_pool3d(x, [2, 2, 2], [1, 2, 2], [0, 1, 1]),
    lambda x: aten.adaptive_avg_pool3d(x, [3, 2, 4]),
    lambda x: aten.adaptive_max_pool3d(x, [3, 2, 4])[0],
]


@pytest.mark.parametrize("pool", POOLS)
def test_pools_of_images_differentiate_twice(pool: object) -> None:
    check_gradients(pool, X[:1, :2].copy())  # type: ignore[arg-type]  # a function
    check_second_gradients(pool, X[:1, :1].copy())  # type: ignore[arg-type]  # a function


@pytest.mark.parametrize("pool", VOLUME_POOLS)
def test_pools_of_volumes_differentiate(pool: object) -> None:
    check_gradients(pool, VOLUME)  # type: ignore[arg-type]  # a function


def test_indices_count_within_a_plane() -> None:
    values, indices = aten.max_pool2d_with_indices(tensor(X), [3, 3], [2, 2], [1, 1])
    flat = X.reshape(2, 3, -1)
    found = np.take_along_axis(flat, indices.numpy().reshape(2, 3, -1), 2)
    assert (found.reshape(values.shape) == values.numpy()).all()


def test_of_equal_values_the_first_counts() -> None:
    assert aten.max_pool2d_with_indices(tensor(np.ones((1, 3, 3))), [2, 2], [1, 1])[1].tolist() == [
        [[0, 1], [3, 4]]
    ]


def test_of_nan_the_last_counts() -> None:
    values, indices = aten.max_pool2d_with_indices(tensor([[[np.nan, 1, np.nan, 2]]]), [1, 4])
    assert np.isnan(values.item())
    assert indices.item() == 2


def test_padding_never_is_the_largest() -> None:
    values, indices = aten.max_pool2d_with_indices(
        tensor(np.full((1, 2, 2), -np.inf)), [2, 2], [2, 2], [1, 1]
    )
    assert indices.tolist() == [[[0, 1], [2, 3]]]
    assert (values.numpy() == -np.inf).all()


def test_averages_may_leave_padding_out() -> None:
    ones = tensor(np.ones((1, 4, 4)))
    assert (aten.avg_pool2d(ones, [3, 3], [1, 1], [1, 1], False, False).numpy() == 1).all()
    assert aten.avg_pool2d(ones, [3, 3], [1, 1], [1, 1]).numpy()[0, 0, 0] == pytest.approx(4 / 9)


def test_an_infinite_element_stays_in_its_windows() -> None:
    x = np.zeros((1, 1, 6))
    x[..., 0] = np.inf
    assert aten._adaptive_avg_pool2d(tensor(x), [1, 3]).tolist() == [[[np.inf, 0, 0]]]


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: aten.max_pool2d_with_indices(x, [2, 2])[0],
        lambda x: aten.avg_pool2d(x, [2, 2]),
        lambda x: aten._adaptive_avg_pool2d(x, [3, 3]),
    ],
)
def test_images_keep_channels_last(pool: object) -> None:
    last = tensor(X).contiguous(memory_format=mq.channels_last)
    assert pool(last).is_contiguous(memory_format=mq.channels_last)  # type: ignore[operator]  # a function


def test_D100_one_mean_for_one_number_a_plane() -> None:
    x = tensor(X)
    assert operators_of(lambda: aten.adaptive_avg_pool2d(x, [1, 1])) == ["mean"]


def test_D100_one_dimension_is_two_with_one_row() -> None:
    x = tensor(X[0, 0])
    names = operators_of(lambda: aten.avg_pool1d(x, [3], [2]))
    assert names == ["unsqueeze", "avg_pool2d", "squeeze"]


def test_unpooling_puts_maxima_back() -> None:
    x = tensor(X)
    values, indices = aten.max_pool2d_with_indices(x, [2, 2])
    back = aten.max_unpool2d(values, indices, [7, 8]).numpy()
    assert back.sum() == pytest.approx(values.numpy().sum())
    assert ((back == 0) | (back == X)).all()


def test_fractional_pools_differentiate() -> None:
    samples = mq.from_numpy(random.uniform(size=(2, 3, 2)))
    check_gradients(lambda x: aten.fractional_max_pool2d(x, [2, 2], [3, 4], samples)[0], X)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: aten.max_pool2d_with_indices(x, [2, 2], [], [2, 2]), "at most half"),
        (lambda x: aten.max_pool2d_with_indices(x, [9, 9]), "Output size is too small"),
        (lambda x: aten.max_pool2d_with_indices(x, [2, 2], [0, 0]), "stride should not be zero"),
        (
            lambda x: aten.avg_pool2d(x, [2, 2], [], [0, 0], False, True, 0),
            "divisor must be not zero",
        ),
        (lambda x: aten.adaptive_avg_pool2d(x, [1, -1]), "greater than or equal to 0"),
        (lambda x: aten.avg_pool3d(x, [9, 9, 9]), "Output size is too small"),
    ],
)
def test_pools_name_what_is_wrong(call: object, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(tensor(X))  # type: ignore[operator]  # a function


def test_pools_refuse_dtypes_that_pytorchs_have_no_kernel_for() -> None:
    with pytest.raises(NotImplementedError, match="\"avg_pool2d\" not implemented for 'Int'"):
        aten.avg_pool2d(mq.zeros(1, 4, 4, dtype=mq.int32), [2, 2])


@pytest.mark.parametrize("name", ["max_pool2d_with_indices", "avg_pool2d"])
def test_pads_are_refused_before_the_input(name: str) -> None:
    pool = getattr(aten, name)
    with pytest.raises(RuntimeError, match="pad must be non-negative, but got pad: -1"):
        pool(mq.ones(0, 1, 4), [2, 2], [1, 1], [-1, -1])
    with pytest.raises(RuntimeError, match="at most half of effective kernel size, but got pad=4"):
        pool(mq.ones(0, 1, 4), [2, 2], [1, 1], [4, 4])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive_pooling_refuses_what_has_no_channels_or_no_windows_backward(dims: int) -> None:
    sides = (7, 6, 5)[:dims]
    pool = getattr(mq.nn.functional, f"adaptive_max_pool{dims}d")
    with pytest.raises(RuntimeError, match="with dimension 1 being empty"):
        pool(mq.ones(1, 0, *sides), 3)
    for kind in ("max", "avg"):
        pool = getattr(mq.nn.functional, f"adaptive_{kind}_pool{dims}d")
        x = mq.ones(2, 3, *sides, requires_grad=True)
        with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size"):
            pool(x, 0).sum().backward()


def test_fractional_pooling_takes_a_plane_without_channels() -> None:
    pooled = mq.nn.functional.fractional_max_pool2d(mq.ones(0, 7, 6), 2, output_size=2)
    assert pooled.shape == (0, 2, 2)


def test_unpooling_refuses_too_few_numbers_of_a_window() -> None:
    x = mq.ones(1, 3, 1, 1, 1)
    with pytest.raises(RuntimeError, match="a number or 3 of them each"):
        mq.nn.functional.max_unpool3d(x, mq.zeros(1, 3, 1, 1, 1, dtype=mq.int64), [1, 1])


def test_a_kernel_larger_than_the_input_takes_no_memory_of_its_own() -> None:
    x = mq.arange(12.0).reshape(1, 1, 3, 4).requires_grad_()
    pooled = mq.nn.functional.avg_pool2d(x, 10**6, ceil_mode=True)
    assert pooled.tolist() == [[[[5.5]]]]
    pooled.backward()
    assert x.grad is not None
    assert x.grad.unique().tolist() == pytest.approx([1 / 12])
    assert mq.nn.functional.max_pool2d(x, 10**3, ceil_mode=True).item() == 11


@pytest.mark.parametrize(
    "window, message",
    [
        ((0,), "kernel_size must be greater than zero, but got 0"),
        ((3, 1, 2), "padding should be at most half of kernel size"),
        ((3, 1, 0, 0), "dilation must be greater than zero"),
        ((7,), "Invalid computed output size: 0"),
        (((3, 3),), "of size 1 but got size 2"),
    ],
)
@pytest.mark.parametrize("mode", [contextlib.nullcontext, mq.FakeTensorMode])
def test_max_pool1d_tells_what_is_wrong_with_its_windows(window, message, mode):
    with mode(), pytest.raises(RuntimeError, match=message):
        mq.nn.functional.max_pool1d(mq.ones(1, 2, 6), *window)


@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("max_pool2d", (2, 3), r"non-empty 3D or 4D \(batch mode\) tensor expected"),
        (
            "max_pool2d",
            (1, 0, 4, 4),
            r"optional 0 dim batch size for input, but got:\[1, 0, 4, 4\]",
        ),
        ("avg_pool3d", (2, 3), r"non-empty 4D or 5D \(batch mode\) tensor expected"),
        ("avg_pool3d", (1, 2, 0, 4), r"and non-batch dimension 2 has length zero"),
        ("avg_pool1d", (2,), "Expected 2 to 3 dimensions, but got 1-dimensional tensor"),
        ("adaptive_avg_pool1d", (2,), "Expected 2 to 3 dimensions, but got 1-dimensional tensor"),
    ],
)
def test_pools_say_which_ranks_and_sizes_they_take(
    name: str, shape: tuple[int, ...], told: str
) -> None:
    with pytest.raises(RuntimeError, match=told):
        getattr(mq.nn.functional, name)(mq.ones(shape), 2)


def test_random_samples_of_a_fractional_pool_may_be_more_than_the_batch() -> None:
    x, samples = mq.rand(1, 2, 6, 6), mq.rand(3, 2, 2)
    pool = mq.nn.functional.fractional_max_pool2d
    found = pool(x, 2, output_size=3, _random_samples=samples)
    assert mq.equal(found, pool(x, 2, output_size=3, _random_samples=samples[:1]))
    with pytest.raises(RuntimeError, match="_random_samples of shape"):
        pool(mq.rand(4, 2, 6, 6), 2, output_size=3, _random_samples=samples)


@pytest.mark.parametrize(
    "name, options",
    [
        ("avg_pool2d", (2,)), ("adaptive_avg_pool2d", (2,)), ("adaptive_avg_pool3d", (2,)),
        ("max_pool2d", (2,)), ("adaptive_max_pool2d", (2,)), ("fractional_max_pool2d", (2, 2)),
        ("nll_loss", (mq.tensor([[[0, 1], [1, 0]]]),)),
    ],
)  # fmt: skip
def test_the_second_gradient_by_the_input_is_zero(name: str, options: tuple[object, ...]) -> None:
    side = 2 if name == "nll_loss" else 4
    x = mq.rand(1, 2, side, side, requires_grad=True)
    pooled = getattr(mq.nn.functional, name)(x, *options)
    (grad,) = mq.autograd.grad(pooled.sum(), x, create_graph=True)
    (second,) = mq.autograd.grad(grad.square().sum(), x)
    assert second.count_nonzero() == 0


@pytest.mark.parametrize(("output", "what"), [((9, 3), "height"), ((3, 9), "width")])
def test_a_fractional_pool_names_the_dimension_that_is_too_small(
    output: tuple[int, int], what: str
) -> None:
    with pytest.raises(RuntimeError, match=f"too large relative to input {what} 7"):
        mq.nn.functional.fractional_max_pool2d(mq.rand(1, 2, 7, 7), 2, output_size=output)


def test_F61_indices_of_channels_last_are_those_of_rows() -> None:
    x = mq.from_numpy(np.random.default_rng(3).standard_normal((2, 5, 7, 8)))
    last = x.contiguous(memory_format=mq.channels_last)
    pool = mq.ops.aten.max_pool2d_with_indices
    found, expected = (pool(v, [3], [2], [1], [2], True) for v in (last, x))
    assert found[1].stride() == (5 * 12, 1, 20, 5)
    np.testing.assert_array_equal(found[1].numpy(), expected[1].numpy())
