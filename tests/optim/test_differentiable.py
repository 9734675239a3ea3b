"""Differentiable steps: gradients go through an update to what it was computed from."""

import pytest

import maquette as mq
from maquette import optim
from maquette.torch.autograd import gradcheck

STEPS = {
    "SGD": (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    "SGD, nesterov": (optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "Adam": (optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    "AdamW": (optim.AdamW, {}),
    "NAdam": (optim.NAdam, {"weight_decay": 0.1}),
    "RAdam": (optim.RAdam, {}),
    "Adadelta": (optim.Adadelta, {}),
    "Adagrad": (optim.Adagrad, {}),
    "Adamax": (optim.Adamax, {}),
    "ASGD": (optim.ASGD, {}),
    "RMSprop": (optim.RMSprop, {"centered": True, "momentum": 0.1}),
    "Rprop": (optim.Rprop, {}),
}


@pytest.mark.parametrize("name", STEPS)
def test_gradients_go_through_steps(name):
    made, options = STEPS[name]

    def after(start, *gradients):
        parameter = start.clone()
        optimizer = made([parameter], lr=0.1, differentiable=True, **options)
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        return parameter

    values = [[0.5, -1.0, 2.0], [0.3, 0.7, -0.4], [0.2, 0.9, -0.1]]
    given = [mq.tensor(v, dtype=mq.float64).requires_grad_() for v in values]
    assert gradcheck(after, given, atol=1e-4)


def test_a_differentiable_step_is_taken_a_tensor_at_a_time():
    with pytest.raises(RuntimeError, match="does not go with"):
        optim.Adam([mq.ones(2)], differentiable=True, foreach=True)


def test_a_rate_that_requires_grad_is_refused():
    parameter = mq.ones(2).requires_grad_().clone()
    optimizer = optim.SGD([parameter], lr=mq.tensor(0.1).requires_grad_(), differentiable=True)
    parameter.grad = mq.ones(2)
    with pytest.raises(NotImplementedError, match="rate that requires grad"):
        optimizer.step()
