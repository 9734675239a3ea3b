"""Softmax and the normalizations: derivatives of both orders, statistics, refusals."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq

random = np.random.default_rng(1)
ROWS = random.standard_normal((3, 5))
IMAGES = random.standard_normal((2, 4, 3))
FOUR = SimpleNamespace(w=random.standard_normal(4), b=random.standard_normal(4))
FIVE = SimpleNamespace(w=random.standard_normal(5), b=random.standard_normal(5))


def batch_norm(x: mq.Tensor, w: mq.Tensor, b: mq.Tensor) -> object:
    return mq.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)[0]


def batch_norm_evaluated(x: mq.Tensor, w: mq.Tensor, b: mq.Tensor) -> object:
    mean, var = mq.arange(4, dtype=mq.float64), mq.arange(1, 5, dtype=mq.float64)
    return mq.native_batch_norm(x, w, b, mean, var, False, 0.1, 1e-5)[0]


@pytest.mark.parametrize("function", [batch_norm, batch_norm_evaluated])
def test_batch_norm_differentiates_twice(function: object) -> None:
    check_gradients(function, IMAGES, FOUR.w, FOUR.b)  # type: ignore[arg-type]  # a function
    check_second_gradients(function, IMAGES, FOUR.w, FOUR.b)  # type: ignore[arg-type]  # a function


def test_layer_norm_differentiates_twice() -> None:
    def function(x: mq.Tensor, w: mq.Tensor, b: mq.Tensor) -> object:
        return mq.layer_norm(x, (5,), w, b)

    check_gradients(function, ROWS, FIVE.w, FIVE.b)
    check_second_gradients(function, ROWS, FIVE.w, FIVE.b)


def test_group_norm_differentiates_twice() -> None:
    def function(x: mq.Tensor, w: mq.Tensor, b: mq.Tensor) -> object:
        return mq.group_norm(x, 2, w, b)

    check_gradients(function, IMAGES, FOUR.w, FOUR.b)
    check_second_gradients(function, IMAGES, FOUR.w, FOUR.b)


def test_group_norm_statistics_carry_gradients() -> None:
    check_gradients(lambda x: mq.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5), IMAGES)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(1),
        lambda x: x.log_softmax(0),
        lambda x: mq.rms_norm(x, (5,)),
        lambda x: mq.ops.aten._safe_softmax(x, 1),
    ],
)
def test_softmax_and_rms_norm_differentiate_twice(function: object) -> None:
    check_gradients(function, ROWS)  # type: ignore[arg-type]  # functions of a tensor
    check_second_gradients(function, ROWS)  # type: ignore[arg-type]  # functions of a tensor


def test_instance_norm_is_batch_norm_of_each_image() -> None:
    check_gradients(
        lambda x, w, b: mq.instance_norm(x, w, b, None, None, True, 0.1, 1e-5, False),
        IMAGES,
        FOUR.w,
        FOUR.b,
    )


def test_softmax_of_huge_numbers_does_not_overflow() -> None:
    assert mq.tensor([1e30, 1e30]).softmax(0).tolist() == [0.5, 0.5]


def test_safe_softmax_of_nothing_but_masked_is_zero() -> None:
    x = mq.full((2, 3), float("-inf"))
    assert not mq.ops.aten._safe_softmax(x, 1).any().item()
    assert x.softmax(1).isnan().all().item()


def test_batch_norm_moves_its_running_statistics() -> None:
    x = mq.from_numpy(IMAGES.astype(np.float32))
    mean, var = mq.zeros(4), mq.ones(4)
    mq.batch_norm(x, None, None, mean, var, True, 0.1, 1e-5, False)
    flat = IMAGES.transpose(1, 0, 2).reshape(4, -1)
    assert mean.numpy() == pytest.approx(0.1 * flat.mean(1), rel=1e-5)
    assert var.numpy() == pytest.approx(0.9 + 0.1 * flat.var(1, ddof=1), rel=1e-5)


def test_batch_norm_evaluation_needs_running_statistics() -> None:
    with pytest.raises(RuntimeError, match="running_mean must be defined in evaluation mode"):
        mq.native_batch_norm(mq.ones((2, 3)), None, None, None, None, False, 0.1, 1e-5)


def test_layer_norm_statistics_are_in_the_parameters_dtype() -> None:
    x, w = mq.ones((2, 4), dtype=mq.bfloat16), mq.ones(4)
    out, mean, rstd = mq.native_layer_norm(x, (4,), w, w, 1e-5)
    assert (out.dtype, mean.dtype, rstd.dtype) == (mq.bfloat16, mq.float32, mq.float32)
    with pytest.raises(RuntimeError, match="mixed dtype"):
        mq.native_layer_norm(mq.ones((2, 4)), (4,), w.bfloat16(), None, 1e-5)


def test_layer_norm_names_the_shapes_that_differ() -> None:
    with pytest.raises(RuntimeError, match=r"normalized_shape=\[3\].*got input of size\[2, 4\]"):
        mq.layer_norm(mq.ones((2, 4)), (3,))


def test_group_norm_keeps_channels_last() -> None:
    x = mq.ones((2, 4, 3, 3)).contiguous(memory_format=mq.channels_last)
    assert mq.group_norm(x, 2).is_contiguous(memory_format=mq.channels_last)


def test_native_batch_norm_legit_records_the_result_not_the_statistics() -> None:
    x = mq.ones((2, 3), requires_grad=True)
    mean, var = mq.zeros(3), mq.ones(3)
    out, *_ = mq.ops.aten._native_batch_norm_legit(x, None, None, mean, var, True, 0.1, 1e-5)
    assert out.requires_grad
    assert not mean.requires_grad


@pytest.mark.parametrize("moving", [("mean",), ("variance",), ("mean", "variance")])
def test_evaluation_moves_with_the_running_statistics(moving):
    x, step = mq.tensor([[1.0, 2.0], [3.0, 5.0]]), 1e-3
    at = {"mean": mq.tensor([0.5, 1.0]), "variance": mq.tensor([2.0, 3.0])}
    weight, bias = mq.tensor([1.0, 2.0]), mq.zeros(2)

    def function(*values):
        found = at | dict(zip(moving, values, strict=True))
        return mq.batch_norm(
            x, weight, bias, found["mean"], found["variance"], False, 0.1, 1e-5, False
        )

    values = [at[name] for name in moving]
    _, tangent = mq.func.jvp(function, tuple(values), tuple(mq.ones_like(v) for v in values))
    ends = [function(*[v + sign * step for v in values]) for sign in (1, -1)]
    assert mq.allclose(tangent, (ends[0] - ends[1]) / (2 * step), 1e-2)


@pytest.mark.parametrize("at", [0, 1])
def test_statistics_of_one_channel_are_updated_wherever_the_batch_stands(at: int) -> None:
    x, mean, var = mq.arange(6.0).reshape(2, 1, 3), mq.zeros(1, 3), mq.ones(1, 3)
    if at == 0:
        mean, var = mean.mT, var.mT
    rule = mq.vmap(
        lambda x, m, v: mq.ops.aten.native_batch_norm(x, None, None, m, v, True, 0.5, 1e-5),
        (2, at, at),
    )
    rule(x, mean, var)
    assert mean.flatten().tolist() == [0.75, 1.25, 1.75]


@pytest.mark.parametrize("rank", [1, 2])
def test_gradients_of_weights_for_each_example_take_the_statistics_that_are_given(
    rank: int,
) -> None:
    """Of a batch of inputs alone, too, whose means they are not."""
    grad, xs, ones = mq.rand(2, 3), mq.rand(4, 2, 3), mq.ones(3)

    def by_weight(x: mq.Tensor) -> mq.Tensor:
        if rank == 1:
            call = mq.ops.aten.native_batch_norm_backward
            return call(grad, x, ones, None, None, ones, 2 * ones, True, 1e-5, [True] * 3)[1]
        call, column = mq.ops.aten.native_layer_norm_backward, mq.ones(2, 1)
        return call(grad, x, [3], column, 2 * column, ones, ones, [True] * 3)[1]

    looped = mq.stack([by_weight(x) for x in xs])
    assert mq.allclose(mq.vmap(by_weight)(xs), looped)
    assert mq.allclose(looped, (grad * (xs - 1) * 2).sum(1))


@pytest.mark.parametrize("ndim", [4, 5])
def test_rms_norm_keeps_channels_last_and_no_other_order(ndim: int) -> None:
    shape = (2, 3, 4, 5, 6)[:ndim]
    last = mq.ones(shape[0], *shape[2:], 3).movedim(-1, 1)
    assert mq.nn.functional.rms_norm(last, shape[-1:]).stride() == last.stride()
    turned = mq.ones(shape[::-1]).permute(*range(ndim)[::-1])
    assert mq.nn.functional.rms_norm(turned, shape[-1:]).is_contiguous()
