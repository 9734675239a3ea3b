"""Steps as functions of lists: what the optimizer's step does, on lists that the caller keeps."""

import pytest

import maquette as mq
from maquette.optim import Adam, _functional, swap_in_optimizer_params_and_state
from maquette.optim.adafactor import adafactor
from maquette.optim.muon import muon

OPTIONS = {"lr": 0.1, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}


def _tensors() -> list[mq.Tensor]:
    return [mq.tensor([0.5, -1.0]), mq.tensor([[2.0]])]


@pytest.mark.parametrize("foreach", [False, True])
def test_adam_of_lists_is_the_optimizers_step(foreach: bool) -> None:
    params = [p.requires_grad_() for p in _tensors()]
    for p in params:
        p.grad = p.detach().cos()
    Adam(params, lr=0.1).step()
    lists, zeros = _tensors(), [mq.zeros_like(t) for t in _tensors()]
    steps = [mq.tensor(0.0), mq.tensor(0.0)]
    squares = [z.clone() for z in zeros]
    _functional.adam(
        lists, [t.cos() for t in lists], zeros, squares, [], steps,
        foreach, amsgrad=False, beta1=0.9, beta2=0.999, **OPTIONS,
    )  # fmt: skip
    assert all(mq.equal(a, b) for a, b in zip(lists, params, strict=True))
    assert steps[0].item() == 1


def test_sgd_of_lists_makes_the_buffers_that_are_none() -> None:
    params, buffers = _tensors(), [None, None]
    options = {"lr": 0.1, "weight_decay": 0.0, "maximize": False, "nesterov": False}
    _functional.sgd(params, _tensors(), buffers, momentum=0.9, dampening=0.0, **options)
    assert buffers[0] is not None
    assert buffers[0].tolist() == [0.5, -1.0]


def test_a_step_by_lists_refuses_a_scale() -> None:
    with pytest.raises(NotImplementedError, match="unscale the gradients first"):
        _functional.adagrad(
            [], [], [], [], None, mq.ones(1), lr=1, weight_decay=0, lr_decay=0, eps=0,
            maximize=False,
        )  # fmt: skip


def test_muon_and_adafactor_of_lists_change_their_state() -> None:
    param, buffer = mq.ones(2, 2), mq.zeros(2, 2)
    shared = {"lr": 0.1, "weight_decay": 0.0}
    muon(
        [param], [mq.eye(2)], [buffer], momentum=0.9, nesterov=True, ns_steps=5, eps=1e-7,
        ns_coefficients=(3.4445, -4.775, 2.0315), adjust_lr_fn=None, has_complex=False, **shared,
    )  # fmt: skip
    assert buffer[0, 0] > 0
    assert param[0, 0] < 1
    variance = mq.zeros(2)
    adafactor(
        [mq.ones(2)], [mq.ones(2)], [None], [None], [variance], [mq.tensor(0.0)], d=1.0,
        beta2_decay=-0.8, eps1=None, eps2=1e-3, maximize=False, **shared,
    )  # fmt: skip
    assert variance.tolist() == [1.0, 1.0]


def test_swapped_in_parameters_are_stepped_and_the_optimizers_own_stay() -> None:
    own = mq.ones(2, requires_grad=True)
    own.grad = mq.ones(2)
    optimizer = Adam([own], lr=0.1)
    optimizer.step()
    saved, other = optimizer.state_dict(), mq.zeros(2, requires_grad=True)
    other.grad = mq.ones(2)
    before = own.tolist()
    with swap_in_optimizer_params_and_state(optimizer, [other], saved):
        optimizer.step()
    assert own.tolist() == before
    assert other[0] < 0
    assert optimizer.param_groups[0]["params"][0] is own
