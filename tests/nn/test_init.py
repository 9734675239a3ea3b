"""Initial values: scales, bounds, structure, and that nothing is read."""

import math

import pytest

import maquette as mq
from maquette import nn
from maquette.nn import init

BIG = (400, 300)


def moments(tensor):
    return tensor.mean().item(), tensor.std().item()


@pytest.mark.parametrize(
    "fill, std",
    [
        (lambda t: init.uniform_(t, -1.0, 1.0), 1 / math.sqrt(3)),
        (lambda t: init.normal_(t, 0.0, 0.5), 0.5),
        (lambda t: init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(2 / 700)),
        (lambda t: init.xavier_normal_(t), math.sqrt(2 / 700)),
        (lambda t: init.kaiming_uniform_(t, a=1.0), math.sqrt(1 / 300)),
        (
            lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
            math.sqrt(2 / 400),
        ),
        (lambda t: init.trunc_normal_(t, std=0.1), 0.1),
        (lambda t: init.trunc_normal_(t, a=-1.0, b=1.0), 0.5396),
    ],
)
def test_scales(fill, std):
    mq.manual_seed(0)
    mean, spread = moments(fill(mq.empty(*BIG)))
    assert abs(mean) < 4 * std / math.sqrt(BIG[0] * BIG[1])
    assert spread == pytest.approx(std, rel=0.01)


def test_uniform_bounds_are_those_of_the_layer():
    weight = nn.Linear(100, 400).weight.detach()
    assert weight.abs().max().item() <= 0.1
    assert weight.abs().max().item() > 0.099


def test_trunc_normal_stays_within_its_bounds():
    t = init.trunc_normal_(mq.empty(1000), mean=1.0, std=3.0, a=0.0, b=1.5)
    assert 0.0 <= t.min().item() <= t.max().item() <= 1.5
    with pytest.warns(UserWarning, match="more than 2 std"):
        init.trunc_normal_(mq.empty(1), mean=10.0)


@pytest.mark.parametrize(
    "fill",
    [init.trunc_normal_, init.orthogonal_, init.dirac_, init.kaiming_normal_, init.zeros_],
)
def test_no_initializer_reads_data(fill):
    with mq.FakeTensorMode():
        t = mq.empty(4, 4, 3)
        assert fill(t) is t


def test_constants_and_identity():
    assert mq.equal(init.constant_(mq.empty(2), 3.0), mq.tensor([3.0, 3.0]))
    assert mq.equal(init.eye_(mq.empty(2, 3)), mq.tensor([[1.0, 0, 0], [0, 1.0, 0]]))
    assert init.ones_(mq.empty(3)).sum().item() == 3


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (3, 2, 2)])
def test_orthogonal_rows_or_columns(shape):
    flat = init.orthogonal_(mq.empty(*shape), gain=2.0).reshape(shape[0], -1)
    small = flat if flat.shape[0] <= flat.shape[1] else flat.t()
    assert mq.allclose(small @ small.t(), 4 * mq.eye(small.shape[0]), atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_dirac_passes_the_input_on(groups):
    weight = init.dirac_(mq.empty(4, 4 // groups, 3), groups=groups)
    x = mq.randn(1, 4, 5)
    assert mq.equal(nn.functional.conv1d(x, weight, padding=1, groups=groups), x)


def test_sparse_zeroes_a_fraction_of_each_column():
    t = init.sparse_(mq.empty(10, 3), 0.25)
    assert mq.equal((t == 0).sum(0), mq.tensor([3, 3, 3]))


def test_autograd_sees_nothing():
    parameter = nn.Parameter(mq.empty(3, 3))
    init.xavier_uniform_(parameter)
    assert parameter.grad_fn is None
    assert parameter.requires_grad


@pytest.mark.parametrize(
    "name, gain", [("linear", 1), ("tanh", 5 / 3), ("relu", math.sqrt(2)), ("selu", 0.75)]
)
def test_gains(name, gain):
    assert init.calculate_gain(name) == gain
    assert init.calculate_gain("leaky_relu", 2) == math.sqrt(2 / 5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: init.calculate_gain("unknown"),
        lambda: init.calculate_gain("leaky_relu", "steep"),
        lambda: init.xavier_uniform_(mq.empty(3)),
        lambda: init.kaiming_uniform_(mq.empty(3, 3), mode="fan_sideways"),
        lambda: init.eye_(mq.empty(3)),
        lambda: init.dirac_(mq.empty(3, 3)),
        lambda: init.orthogonal_(mq.empty(3)),
    ],
)
def test_shapes_and_names_that_make_no_sense(call):
    with pytest.raises(ValueError, match=r"\w"):
        call()


def test_deprecated_names_warn():
    with pytest.warns(FutureWarning, match="in favor of `nn.init.normal_`"):
        init.normal(mq.empty(2))


def test_empty_tensors_are_left_with_a_warning():
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_uniform_(mq.empty(0, 3))
