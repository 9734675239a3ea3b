"""L-BFGS: where it arrives, what it calls, and the line search's conditions."""

import inspect
import math

import pytest

import maquette as mq
from maquette import nn, optim
from maquette.optim.line_search import CURVATURE, DECREASE, Point, strong_wolfe


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def minimized(loss, start, steps=1, **options):
    """The parameter after steps on `loss`, the last returned loss and the number of calls."""
    x = nn.Parameter(mq.tensor(start, dtype=mq.float64))
    optimizer = optim.LBFGS([x], **options)
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        return value

    for _ in range(steps):
        first = optimizer.step(closure)
    return x, first, calls, optimizer


def test_a_quadratic_is_minimized_exactly():
    scale = mq.tensor([1.0, 10.0, 100.0], dtype=mq.float64)
    x, _, _, _ = minimized(
        lambda x: (scale * (x - 3) ** 2).sum(), [0.0, 1.0, 2.0], line_search_fn="strong_wolfe"
    )
    assert mq.allclose(x, mq.full((3,), 3.0, dtype=mq.float64), atol=1e-6)


def test_a_curved_valley_is_followed_to_its_end():
    x, _, _, _ = minimized(rosenbrock, [-1.2, 1.0], 5, line_search_fn="strong_wolfe")
    assert mq.allclose(x, mq.ones(2, dtype=mq.float64), atol=1e-4)


def test_step_returns_the_loss_it_found():
    _, first, _, _ = minimized(rosenbrock, [-1.2, 1.0], line_search_fn="strong_wolfe")
    assert first.item() == pytest.approx(24.2)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_calls_are_counted_and_limited(search):
    _, _, calls, optimizer = minimized(
        rosenbrock, [-1.2, 1.0], lr=1e-3, max_iter=5, line_search_fn=search
    )
    state = optimizer.state_dict()["state"][0]
    assert state["func_evals"] == calls
    assert state["n_iter"] <= 5
    assert search or calls == 5


def test_at_a_minimum_nothing_moves():
    x, _, calls, _ = minimized(rosenbrock, [1.0, 1.0])
    assert x.tolist() == [1.0, 1.0]
    assert calls == 1


def test_several_parameters_are_one_vector():
    a, b = nn.Parameter(mq.zeros(2, 2)), nn.Parameter(mq.zeros(3))
    optimizer = optim.LBFGS([a, b], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (a - 1).square().sum() + (b + 2).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert mq.allclose(a, mq.ones(2, 2), atol=1e-4)
    assert mq.allclose(b, mq.full((3,), -2.0), atol=1e-4)


def test_groups_and_other_searches_are_refused():
    params = [nn.Parameter(mq.ones(1)), nn.Parameter(mq.ones(1))]
    with pytest.raises(ValueError, match="parameter groups"):
        optim.LBFGS([{"params": [p]} for p in params])
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optim.LBFGS(params, line_search_fn="golden")
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS(params).step()


@pytest.mark.parametrize("first_step", [0.001, 0.1, 1.0, 50.0])
def test_a_found_point_meets_both_conditions(first_step):
    def evaluate(step):  # of (t - 1) ** 4 + t ** 2 / 10 along a line
        loss, slope = (step - 1) ** 4 + step**2 / 10, 4 * (step - 1) ** 3 + step / 5
        return Point(step, loss, mq.tensor([slope]), slope)

    start = evaluate(0.0)
    point, _ = strong_wolfe(evaluate, start, first_step, reach=1.0, tolerance=1e-9)
    assert point.loss <= start.loss + DECREASE * point.step * start.slope
    assert abs(point.slope) <= CURVATURE * abs(start.slope)


def test_a_first_gradient_of_zero_is_no_error():
    x = mq.ones(2)
    optimizer = optim.LBFGS([x], tolerance_grad=-math.inf)
    assert optimizer.step(lambda: mq.tensor([10])).item() == 10


def test_the_closure_is_required_by_the_signature():
    closure = inspect.signature(optim.LBFGS.step).parameters["closure"]
    assert closure.default is inspect.Parameter.empty


def test_the_line_search_has_what_is_left_of_the_step_s_calls():
    _, _, calls, _ = minimized(rosenbrock, [-1.2, 1.0], max_iter=1, line_search_fn="strong_wolfe")
    assert calls == 2  # the first loss and one step: max_eval is 1
    _, _, calls, _ = minimized(rosenbrock, [-1.2, 1.0], max_eval=4, line_search_fn="strong_wolfe")
    assert calls == 4
