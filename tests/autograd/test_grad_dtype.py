"""`Tensor.grad_dtype`: a leaf's gradient may be of another dtype than the leaf."""

import pytest

import maquette as mq
from maquette.fake import MetaConverter


def leaf(dtype, fill=1.0):
    x = mq.full((3,), fill, requires_grad=True)
    x.grad_dtype = dtype
    return x


class Widened(mq.autograd.Function):
    """Its backward gives float64 whatever came."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad.double() / 3


def test_it_is_the_leafs_own_unless_set():
    assert mq.ones(3, requires_grad=True).grad_dtype is mq.float32


@pytest.mark.parametrize("dtype", [mq.float16, mq.float64])
def test_backward_converts_the_gradient(dtype):
    x = leaf(dtype)
    for _ in range(2):
        (x * 2).sum().backward()
    assert x.grad.dtype is dtype
    assert x.grad.tolist() == [4, 4, 4]


def test_grad_and_hooks_see_the_converted_gradient():
    x, seen = leaf(mq.float64), []
    x.register_hook(lambda grad: seen.append(grad.dtype))
    (found,) = mq.autograd.grad((x * 2).sum(), x)
    assert [found.dtype, *seen] == [mq.float64, mq.float64]


@pytest.mark.parametrize("dtype", [None, mq.float64])
def test_a_gradient_is_not_rounded_to_the_leafs_dtype_on_the_way(dtype):
    x = leaf(dtype)
    Widened.apply(x).sum().backward()
    assert x.grad.tolist() == [1 / 3] * 3


def test_fakes_have_it_too():
    with mq.FakeTensorMode():
        x = leaf(mq.float16)
        (x * 2).sum().backward()
        assert x.grad.dtype is mq.float16


@pytest.mark.parametrize("dtype", [None, mq.float64])
def test_F44_M34_conversion_carries_it(dtype):
    x = leaf(dtype)
    assert mq.FakeTensorMode().from_tensor(x).grad_dtype is dtype
    assert MetaConverter()(x).grad_dtype is dtype


def test_a_gradient_is_assigned_in_that_dtype_only():
    x = leaf(mq.float64)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype"):
        x.grad = mq.ones(3)
    x.grad = mq.ones(3, dtype=mq.float64)
    with pytest.raises(RuntimeError, match="because there is already a gradient with dtype"):
        x.grad_dtype = mq.float32


def test_results_have_none():
    y = leaf(None) * 2
    with pytest.raises(RuntimeError, match="only be accessed on leaf tensors"):
        _ = y.grad_dtype
    with pytest.raises(RuntimeError, match="only be set on leaf tensors"):
        y.grad_dtype = mq.float64


def test_it_is_a_dtype_or_none():
    with pytest.raises(RuntimeError, match=r"must be a torch\.dtype or None, but got str"):
        leaf("float32")
