"""Strides of results whose operands are not contiguous, and gradients of repeated positions."""

from __future__ import annotations

import pytest

import maquette as mq

aten = mq.ops.aten


def columns_first(*shape: int) -> mq.Tensor:
    """A tensor whose last two dimensions are laid out the other way round."""
    return mq.ones(*shape).transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce_is_contiguous(reduce: str) -> None:
    found = aten.index_reduce.default(
        columns_first(5, 5), 1, mq.tensor([0, 2]), mq.ones(5, 2), reduce
    )
    assert found.stride() == (5, 1)


def test_bernoulli_of_a_probability_is_contiguous() -> None:
    assert aten.bernoulli.p(columns_first(2, 3), 0.5).stride() == (3, 1)


@pytest.mark.parametrize("transposed", [False, True])
def test_along_one_dimension_the_weight_alone_makes_a_convolution_channels_last(
    transposed: bool,
) -> None:
    rest = ([1], [0], [1], transposed, [0], 1)
    plain, turned = mq.ones(3, 3, 3), columns_first(3, 3, 3)
    out = aten.convolution.default(mq.ones(2, 3, 5), turned, None, *rest)
    assert out.stride() == (3 * out.shape[2], 1, 3)
    out = aten.convolution.default(columns_first(2, 3, 5), plain, None, *rest)
    assert out.is_contiguous()


def test_gradients_of_such_a_convolution_are_channels_last_too() -> None:
    back = aten.convolution_backward.default(
        mq.ones(2, 3, 3), mq.ones(2, 3, 5), columns_first(3, 3, 3), None, [1], [0], [1], False,
        [0], 1, [True, True, False],
    )  # fmt: skip
    assert [g.stride() for g in back[:2]] == [(15, 1, 3), (9, 1, 3)]


@pytest.mark.parametrize(("kind", "strides"), [(mq.float32, (50, 5, 1)), (mq.float64, (50, 1, 10))])
def test_ldexp_lays_out_float32_as_if_the_power_were_made_first(
    kind: mq.dtype, strides: tuple[int, ...]
) -> None:
    exponent = mq.as_strided(mq.ones(50, dtype=kind), (1, 10, 5), (50, 1, 10))
    assert aten.ldexp.Tensor(mq.ones(10, 1, 5, dtype=kind), exponent).stride() == strides


def test_a_position_filled_twice_gives_its_gradient_once() -> None:
    x = mq.zeros(4, dtype=mq.float64)
    value = mq.tensor(5.0, dtype=mq.float64).requires_grad_()
    filled = aten.index_fill.int_Tensor(x, 0, mq.tensor([1, 1, 3]), value)
    filled.backward(mq.tensor([1.0, 10.0, 100.0, 1000.0], dtype=mq.float64))
    assert value.grad.item() == 1010.0


def test_index_fill_takes_positions_in_int64_only() -> None:
    with pytest.raises(IndexError, match="Expected dtype int64 for index"):
        aten.index_fill.int_Scalar(mq.zeros(4), 0, mq.tensor([1], dtype=mq.int32), 1)


def test_an_empty_scatter_takes_an_index_of_any_dtype() -> None:
    nothing = mq.zeros(0, dtype=mq.uint8)
    assert aten.scatter_add.default(mq.ones(3), 0, nothing, mq.zeros(0)).tolist() == [1.0] * 3


def test_the_gradient_of_a_complex_convolution_is_conjugated() -> None:
    # out = x * w for single numbers: the gradient of Re(out) by x is conj(w).
    x = mq.tensor([[[1.0 + 2.0j]]]).requires_grad_()
    w = mq.tensor([[[3.0 - 1.0j]]]).requires_grad_()
    out = aten.convolution.default(x, w, None, [1], [0], [1], False, [0], 1)
    out.backward(mq.ones_like(out))
    assert x.grad.item() == 3.0 + 1.0j
    assert w.grad.item() == 1.0 - 2.0j


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_vectors_of_a_full_svd_pass_on_the_gradient_of_those_with_values(
    shape: tuple[int, int],
) -> None:
    rows = mq.arange(15, dtype=mq.float64).reshape(shape)
    a = (rows * rows / 50).sin().requires_grad_()
    found = []
    for full in (True, False):
        left, _, right = aten.linalg_svd.default(a, full)
        loss = (left[:, :3] ** 4).sum() + (right[:3] ** 4).sum()
        found.append(mq.autograd.grad(loss, a)[0])
    assert found[0].allclose(found[1])


def test_distances_to_nothing_keep_their_place_in_the_graph() -> None:
    a = mq.ones(4, 5).requires_grad_()
    distances = aten.cdist.default(a, mq.ones(0, 5), 2.0, 1)
    (grad,) = mq.autograd.grad(distances.sum(), a)
    assert grad.tolist() == mq.zeros(4, 5).tolist()


def test_positions_written_to_an_output_of_another_shape_lie_by_dimension() -> None:
    out = mq.zeros(0, 3, dtype=mq.int64)
    found = aten.nonzero.out(mq.ones(2, 1, 2), out=out)
    assert found is out
    assert found.stride() == (1, 4)
    assert found.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
