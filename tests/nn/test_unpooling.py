"""Undoing max-pools, and max-pools over windows of random place."""

import pytest

import maquette as mq
from maquette import nn
from maquette.nn import functional as F

SHAPES = {1: (2, 3, 9), 2: (2, 3, 6, 7), 3: (1, 2, 4, 5, 6)}


def distinct(*shape):
    return mq.randperm(mq.Size(shape).numel()).double().view(shape) + 1


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_puts_maxima_back_and_zeros_elsewhere(dims):
    x = distinct(*SHAPES[dims])
    pool, unpool = getattr(F, f"max_pool{dims}d"), getattr(F, f"max_unpool{dims}d")
    values, indices = pool(x, 2, return_indices=True)
    back = unpool(values, indices, 2, output_size=x.shape)
    assert back.shape == x.shape
    assert mq.equal(back[back != 0], x[back != 0])
    assert (back != 0).sum() == values.numel()
    assert mq.equal(pool(back, 2), values)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_needs_no_batch_and_finds_the_least_size(dims):
    x = distinct(2, *[7, 5, 9][:dims])
    values, indices = getattr(F, f"max_pool{dims}d")(x, 3, 2, 1, return_indices=True)
    assert getattr(F, f"max_unpool{dims}d")(values, indices, 3, 2, 1).shape == x.shape


def test_the_gradient_of_unpooling_is_taken_at_the_indices():
    values, indices = F.max_pool2d(distinct(1, 2, 4, 4), 2, return_indices=True)
    values.requires_grad_()
    slope = distinct(1, 2, 4, 4)
    (grad,) = mq.autograd.grad(F.max_unpool2d(values, indices, 2), values, slope)
    expected = slope.flatten(2).gather(2, indices.flatten(2)).view_as(values)
    assert mq.equal(grad, expected)


def test_unpooling_layers_are_the_functions():
    x = distinct(1, 2, 7, 7)
    values, indices = nn.MaxPool2d(3, 2, 1, return_indices=True)(x)
    layer = nn.MaxUnpool2d(3, 2, 1)
    assert mq.equal(layer(values, indices), F.max_unpool2d(values, indices, 3, 2, 1))
    assert layer(values, indices, [8, 8]).shape == (1, 2, 8, 8)
    assert repr(layer) == "MaxUnpool2d(kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))"
    assert nn.MaxUnpool1d(3).stride == (3,)


def test_unpooling_refuses_a_size_that_pools_to_another():
    values, indices = F.max_pool1d(distinct(1, 1, 6), 2, return_indices=True)
    with pytest.raises(ValueError, match=r"dim 0 must be between 4 and 8"):
        F.max_unpool1d(values, indices, 2, output_size=(8,))
    with pytest.raises(ValueError, match="should be a sequence containing 1 or 3"):
        F.max_unpool1d(values, indices, 2, output_size=(1, 6))


def test_unpooling_a_volume_refuses_a_stride_of_zero():
    values, indices = F.max_pool3d(distinct(1, 1, 4, 4, 4), 2, return_indices=True)
    with pytest.raises(RuntimeError, match="stride greater than zero"):
        F.max_unpool3d(values, indices, 2, stride=0)


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_pools_take_the_maxima_of_windows_in_order(dims):
    x = mq.arange(8.0**dims).view(1, 1, *[8] * dims)
    pool = getattr(F, f"fractional_max_pool{dims}d")
    values, indices = pool(x, 2, output_size=4, return_indices=True)
    assert values.shape == (1, 1, *[4] * dims)
    assert mq.equal(values.long(), indices)  # x counts its own positions
    assert values.flatten()[-1] == x.max()


def test_fractional_pools_take_a_ratio_and_random_numbers():
    x = distinct(2, 3, 9, 9)
    samples = mq.rand(2, 3, 2, dtype=mq.float64)
    first = F.fractional_max_pool2d(x, 3, output_ratio=(0.5, 0.7), _random_samples=samples)
    assert first.shape == (2, 3, 4, 6)
    again = F.fractional_max_pool2d(x, 3, output_size=(4, 6), _random_samples=samples)
    assert mq.equal(first, again)
    both = F.fractional_max_pool2d_with_indices(x, 3, (4, 6), _random_samples=samples)
    assert mq.equal(both[0], first)
    assert mq.equal(both[1].flatten(2), (x.flatten(2)[..., None] == first.flatten(2)[:, :, None])
                    .long().argmax(2))  # fmt: skip


def test_fractional_layers_keep_their_random_numbers():
    x, samples = distinct(1, 2, 8, 8), mq.rand(1, 2, 2, dtype=mq.float64)
    layer = nn.FractionalMaxPool2d(2, output_ratio=0.5, _random_samples=samples)
    assert mq.equal(layer(x), layer(x))
    assert list(layer.state_dict()) == ["_random_samples"]
    assert layer.output_ratio == (0.5, 0.5)
    values, indices = nn.FractionalMaxPool3d(2, 2, return_indices=True)(distinct(1, 2, 4, 5, 6))
    assert values.shape == indices.shape == (1, 2, 2, 2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "requires specifying either an output size"),
        ({"output_size": 2, "output_ratio": 0.5}, "only one of output_size and output_ratio"),
        ({"output_ratio": 1.5}, "must be between 0 and 1"),
    ],
)
def test_fractional_layers_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        nn.FractionalMaxPool2d(2, **options)


def test_fractional_pools_refuse_no_size_and_empty_windows():
    with pytest.raises(ValueError, match="either an output_size or an output_ratio"):
        F.fractional_max_pool3d(distinct(1, 1, 4, 4, 4), 2)
    with pytest.raises(ValueError, match="kernel_size must be greater than 0"):
        nn.FractionalMaxPool3d((2, 0, 2), 2)
