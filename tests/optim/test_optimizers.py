"""Optimizers against their formulas in plain Python, on every path."""

import math

import pytest

import maquette as mq
from maquette import nn, optim
from maquette.dispatch.modes import TorchDispatchMode

START, GRADIENTS = 2.0, [0.5, -1.5, 0.25, 3.0]
PATHS = [{"foreach": False}, {"foreach": True}]


def trained(make, gradients=GRADIENTS, start=START):
    """The one parameter after a step for each gradient, and its optimizer."""
    parameter = nn.Parameter(mq.tensor([start], dtype=mq.float64))
    optimizer = make([parameter])
    for gradient in gradients:
        parameter.grad = mq.tensor([gradient], dtype=mq.float64)
        optimizer.step()
    return parameter, optimizer


def sgd(*, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    """The parameter that the formula gives."""
    p, velocity = START, None
    for g in GRADIENTS:
        g = g + weight_decay * p
        if momentum:
            velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        p -= lr * g
    return p


def adam(*, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False, amsgrad=False):
    """The parameter that the formula gives."""
    p, m, v, largest = START, 0.0, 0.0, 0.0
    for step, g in enumerate(GRADIENTS, 1):
        if decoupled:
            p *= 1 - lr * weight_decay
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        largest = max(largest, v)
        second = (largest if amsgrad else v) / (1 - betas[1] ** step)
        p -= lr * m / (1 - betas[0] ** step) / (math.sqrt(second) + eps)
    return p


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.5},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ],
)
def test_sgd_follows_its_formula(options, path):
    p, _ = trained(lambda params: optim.SGD(params, lr=0.1, **options, **path))
    assert p.item() == pytest.approx(sgd(lr=0.1, **options), rel=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"betas": (0.5, 0.9), "eps": 1e-3},
        {"weight_decay": 0.1},
        {"amsgrad": True, "betas": (0.5, 0.5)},
    ],
)
def test_adam_follows_its_formula(options, path):
    p, _ = trained(lambda params: optim.Adam(params, lr=0.1, **options, **path))
    assert p.item() == pytest.approx(adam(lr=0.1, **options), rel=1e-12)


@pytest.mark.parametrize("path", PATHS)
def test_adamw_decays_the_parameter_itself(path):
    p, _ = trained(lambda params: optim.AdamW(params, lr=0.1, weight_decay=0.2, **path))
    assert p.item() == pytest.approx(adam(lr=0.1, weight_decay=0.2, decoupled=True), rel=1e-12)


@pytest.mark.parametrize("path", PATHS)
def test_rmsprop_follows_its_formula(path):
    p, square, mean, velocity = START, 0.0, 0.0, 0.0
    for g in GRADIENTS:
        square = 0.9 * square + 0.1 * g * g
        mean += 0.1 * (g - mean)
        velocity = 0.5 * velocity + g / (math.sqrt(square - mean * mean) + 1e-8)
        p -= 0.01 * velocity
    got, _ = trained(
        lambda params: optim.RMSprop(params, alpha=0.9, momentum=0.5, centered=True, **path)
    )
    assert got.item() == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("path", PATHS)
def test_adagrad_follows_its_formula(path):
    p, total = START, 0.1
    for step, g in enumerate(GRADIENTS):
        total += g * g
        p -= 0.1 / (1 + step * 0.5) * g / (math.sqrt(total) + 1e-10)
    got, _ = trained(
        lambda params: optim.Adagrad(
            params, lr=0.1, lr_decay=0.5, initial_accumulator_value=0.1, **path
        )
    )
    assert got.item() == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_maximize_is_minimizing_the_opposite(name, path):
    make = getattr(optim, name)
    up, _ = trained(lambda params: make(params, lr=0.1, maximize=True, **path))
    down, _ = trained(lambda params: make(params, lr=0.1, **path), [-g for g in GRADIENTS])
    assert up.item() == down.item()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_parameters_without_gradient_are_left_alone(name):
    with_grad, without = nn.Parameter(mq.ones(1)), nn.Parameter(mq.ones(1))
    optimizer = getattr(optim, name)([with_grad, without], lr=0.1)
    with_grad.grad = mq.ones(1)
    optimizer.step()
    assert with_grad.item() != 1.0
    assert without.item() == 1.0


def test_groups_have_their_own_options():
    a, b = nn.Parameter(mq.ones(1)), nn.Parameter(mq.ones(1))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    for parameter in (a, b):
        parameter.grad = mq.ones(1)
    optimizer.step()
    assert a.item() == pytest.approx(0.9)
    assert b.item() == 0.5


def test_adam_counts_steps_on_the_cpu_in_float32():
    _, optimizer = trained(optim.AdamW)
    (state,) = optimizer.state.values()
    assert list(state) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["step"].item() == 4.0
    assert state["step"].dtype == mq.float32
    assert state["step"].shape == ()


def test_a_learning_rate_may_be_a_tensor():
    fixed, _ = trained(lambda params: optim.SGD(params, lr=0.25))
    tensor, _ = trained(lambda params: optim.SGD(params, lr=mq.tensor(0.25)))
    assert tensor.item() == fixed.item()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"lr": -1.0}, "Invalid learning rate: -1.0"),
        ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ({"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
    ],
)
def test_adam_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        optim.Adam([nn.Parameter(mq.ones(1))], **options)


def test_options_that_exclude_each_other_or_are_missing():
    params = [nn.Parameter(mq.ones(1))]
    with pytest.raises(RuntimeError, match="cannot be `True` together"):
        optim.AdamW(params, fused=True, foreach=True)
    with pytest.raises(ValueError, match="Nesterov"):
        optim.SGD(params, nesterov=True)


CAPTURABLE = ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adadelta", "Rprop", "RMSprop", "ASGD")


@pytest.mark.parametrize("name", CAPTURABLE)
def test_a_capturable_step_counts_on_the_device_and_reads_nothing(name):
    with mq.FakeTensorMode():  # which refuses to read a number
        p = nn.Parameter(mq.ones(3, device="cuda"))
        optimizer = getattr(optim, name)([p], lr=0.1, capturable=True)
        p.grad = mq.ones(3, device="cuda")
        optimizer.step()
        assert {t.device.type for t in optimizer.state[p].values()} == {"cuda"}


@pytest.mark.parametrize("name", CAPTURABLE)
def test_a_capturable_step_on_cpu_is_refused(name):
    p = nn.Parameter(mq.ones(3))
    optimizer = getattr(optim, name)([p], capturable=True)
    p.grad = mq.ones(3)
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be"):
        optimizer.step()


def test_a_step_on_fakes_allocates_the_state_where_the_parameters_are():
    with mq.FakeTensorMode():
        model = nn.Linear(4, 4, device="cuda")
        optimizer = optim.AdamW(model.parameters())
        for _ in range(2):
            model(mq.ones(2, 4, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    state = optimizer.state[model.weight]
    assert str(state["exp_avg"].device) == "cuda:0"
    assert str(state["step"].device) == "cpu"


def operators(optimizer_options, device):
    """The names of operators that a second AdamW step calls on fakes."""
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name().removeprefix("aten::").partition(".")[0])
            return func(*args, **(kwargs or {}))

    with mq.FakeTensorMode():
        parameter = nn.Parameter(mq.ones(3, device=device))
        optimizer = optim.AdamW([parameter], **optimizer_options)
        for _ in range(2):
            parameter.grad = mq.ones(3, device=device)
            seen.clear()
            with Log():
                optimizer.step()
    return seen


def test_lists_are_the_default_on_cuda_only():
    assert "_foreach_lerp_" in operators({}, "cuda")
    assert "lerp_" in operators({}, "cpu")
    assert "lerp_" in operators({"foreach": False}, "cuda")
    assert "_foreach_lerp_" in operators({"foreach": True}, "cpu")
    assert "lerp_" in operators({"fused": False}, "cuda")
