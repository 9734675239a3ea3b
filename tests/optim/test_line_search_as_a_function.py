"""The line search of L-BFGS, and the mark of schedulers, as libraries call them."""

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch.optim.lbfgs import _cubic_interpolate, _strong_wolfe
from maquette.torch.optim.lr_scheduler import StepLR, _enable_get_lr_call


def test_a_strong_wolfe_search_meets_the_conditions_on_a_parabola() -> None:
    center = mq.tensor([3.0, -1.0])

    def loss(x: mq.Tensor, step: float, direction: mq.Tensor) -> tuple[float, mq.Tensor]:
        at = x + step * direction
        return float((at - center).pow(2).sum()), 2 * (at - center)

    x, d = mq.zeros(2), mq.tensor([3.0, -1.0])
    f, g = loss(x, 0.0, d)
    found, gradient, step, calls = _strong_wolfe(loss, x, 0.05, d, f, g, float(g.dot(d)))
    assert (found, step, calls) == (pytest.approx(2.5), pytest.approx(0.5), 2)  # as in PyTorch
    assert gradient.tolist() == pytest.approx([-3.0, 1.0])
    with pytest.raises(NotImplementedError, match="c1 and c2"):
        _strong_wolfe(loss, x, 0.1, d, f, g, float(g.dot(d)), c2=0.4)


def test_a_cubic_is_interpolated() -> None:
    assert _cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0) == pytest.approx(1.0)
    assert _cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0, bounds=(0.0, 0.5)) == 0.5


def test_get_lr_does_not_warn_in_a_block_of_a_step() -> None:
    scheduler = StepLR(torch.optim.SGD([mq.nn.Parameter(mq.ones(1))], lr=1.0), 2)
    with _enable_get_lr_call(scheduler) as same:
        assert same is scheduler
        assert scheduler.get_lr() == [1.0]
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
