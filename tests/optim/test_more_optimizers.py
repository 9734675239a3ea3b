"""The less common optimizers against their formulas in plain Python, on every path."""

import copy
import math

import pytest

import maquette as mq
from maquette import nn, optim

START, GRADIENTS = 2.0, [0.5, -1.5, 0.25, 3.0, 1.0, 2.0, -0.5]
PATHS = [{"foreach": False}, {"foreach": True}]
ALL = ["Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"]


def trained(make, gradients=GRADIENTS):
    """The one parameter after a step for each gradient, and its optimizer."""
    parameter = nn.Parameter(mq.tensor([START], dtype=mq.float64))
    optimizer = make([parameter])
    for gradient in gradients:
        parameter.grad = mq.tensor([gradient], dtype=mq.float64)
        optimizer.step()
    return parameter, optimizer


def adadelta(*, lr, rho, eps=1e-6, weight_decay=0.0):
    p, squares, deltas = START, 0.0, 0.0
    for g in GRADIENTS:
        g = g + weight_decay * p
        squares = rho * squares + (1 - rho) * g * g
        delta = math.sqrt(deltas + eps) / math.sqrt(squares + eps) * g
        deltas = rho * deltas + (1 - rho) * delta * delta
        p -= lr * delta
    return p


def adamax(*, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
    p, m, largest = START, 0.0, 0.0
    for step, g in enumerate(GRADIENTS, 1):
        g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        largest = max(betas[1] * largest, abs(g) + eps)
        p -= lr / (1 - betas[0] ** step) * m / largest
    return p


def nadam(*, lr, betas=(0.9, 0.999), eps=1e-8, momentum_decay=4e-3, weight_decay=0.0, decoupled=0):
    p, m, v, product = START, 0.0, 0.0, 1.0
    for t, g in enumerate(GRADIENTS, 1):
        if decoupled:
            p *= 1 - lr * weight_decay
        else:
            g = g + weight_decay * p
        mu, after = (betas[0] * (1 - 0.5 * 0.96 ** (s * momentum_decay)) for s in (t, t + 1))
        product *= mu
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        denominator = math.sqrt(v / (1 - betas[1] ** t)) + eps
        p -= lr * (1 - mu) / (1 - product) * g / denominator
        p -= lr * after / (1 - product * after) * m / denominator
    return p


def radam(*, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=0):
    p, m, v = START, 0.0, 0.0
    longest = 2 / (1 - betas[1]) - 1
    for t, g in enumerate(GRADIENTS, 1):
        if decoupled:
            p *= 1 - lr * weight_decay
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        length = longest - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        mean = m / (1 - betas[0] ** t)
        if length > 5:
            r = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            mean *= math.sqrt(r) * math.sqrt(1 - betas[1] ** t) / (math.sqrt(v) + eps)
        p -= lr * mean
    return p


def asgd(*, lr, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0):
    p, eta, mu, mean = START, lr, 1.0, 0.0
    for t, g in enumerate(GRADIENTS, 1):
        g = g + weight_decay * p
        p = p * (1 - lambd * eta) - eta * g
        mean = mean + (p - mean) * mu
        eta = lr / (1 + lambd * lr * t) ** alpha
        mu = 1 / max(1, t - t0)
    return p, mean


def rprop(*, lr, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    p, previous, size = START, 0.0, lr
    for g in GRADIENTS:
        agreement = g * previous
        size *= etas[1] if agreement > 0 else etas[0] if agreement < 0 else 1
        size = min(max(size, step_sizes[0]), step_sizes[1])
        g = 0.0 if agreement < 0 else g
        p -= size * ((g > 0) - (g < 0))
        previous = g
    return p


CASES = [
    (optim.Adadelta, adadelta, {"lr": 1.0, "rho": 0.9}),
    (optim.Adadelta, adadelta, {"lr": 0.5, "rho": 0.5, "weight_decay": 0.1}),
    (optim.Adamax, adamax, {"lr": 0.1}),
    (optim.Adamax, adamax, {"lr": 0.1, "betas": (0.5, 0.7), "weight_decay": 0.1}),
    (optim.NAdam, nadam, {"lr": 0.1}),
    (optim.NAdam, nadam, {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1}),
    (optim.RAdam, radam, {"lr": 0.1}),
    (optim.RAdam, radam, {"lr": 0.1, "betas": (0.5, 0.7), "weight_decay": 0.1}),
    (optim.Rprop, rprop, {"lr": 0.1}),
    (optim.Rprop, rprop, {"lr": 0.1, "etas": (0.3, 2.0), "step_sizes": (0.05, 0.15)}),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("make, formula, options", CASES)
def test_optimizers_follow_their_formulas(make, formula, options, path):
    p, _ = trained(lambda params: make(params, **options, **path))
    assert p.item() == pytest.approx(formula(**options), rel=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("make, formula", [(optim.NAdam, nadam), (optim.RAdam, radam)])
def test_decoupled_decay_shrinks_the_parameter_itself(make, formula, path):
    options = {"lr": 0.1, "weight_decay": 0.2}
    p, _ = trained(lambda params: make(params, decoupled_weight_decay=True, **options, **path))
    assert p.item() == pytest.approx(formula(decoupled=1, **options), rel=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("options", [{}, {"t0": 2, "weight_decay": 0.1, "lambd": 0.1}])
def test_asgd_follows_its_formula_and_averages(options, path):
    p, optimizer = trained(lambda params: optim.ASGD(params, lr=0.1, **options, **path))
    expected, mean = asgd(lr=0.1, **options)
    assert p.item() == pytest.approx(expected, rel=1e-6)
    assert optimizer.state[p]["ax"].item() == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ALL)
def test_maximize_is_minimizing_the_opposite(name, path):
    make = getattr(optim, name)
    up, _ = trained(lambda params: make(params, lr=0.1, maximize=True, **path))
    down, _ = trained(lambda params: make(params, lr=0.1, **path), [-g for g in GRADIENTS])
    assert up.item() == down.item()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ALL)
def test_gradients_are_not_written_to(name, path):
    p = nn.Parameter(mq.ones(3))
    optimizer = getattr(optim, name)([p], lr=0.1, **path)
    p.grad = mq.tensor([1.0, -2.0, 3.0])
    for _ in range(2):
        optimizer.step()
    assert p.grad.tolist() == [1.0, -2.0, 3.0]


@pytest.mark.parametrize("name", [*ALL, "Adafactor", "Muon"])
def test_a_loaded_optimizer_goes_on_as_the_saved_one(name):
    def run(p, optimizer, gradient):
        p.grad = mq.full((2, 3), gradient)
        optimizer.step()

    make = getattr(optim, name)
    p = nn.Parameter(mq.ones(2, 3))
    optimizer = make([p], lr=0.1)
    run(p, optimizer, 1.0)
    q = nn.Parameter(p.detach().clone())
    other = make([q], lr=0.3)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each in ((p, optimizer), (q, other)):
        run(*each, 0.5)
    assert mq.equal(p, q)


@pytest.mark.parametrize("name", ["Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Adafactor"])
def test_steps_run_in_fake_mode(name):
    with mq.FakeTensorMode():
        p = nn.Parameter(mq.ones(2, 3))
        optimizer = getattr(optim, name)([p])
        for _ in range(2):
            p.grad = mq.ones(2, 3)
            optimizer.step()
    assert p.shape == (2, 3)


@pytest.mark.parametrize("name", ["Adadelta", "Adamax", "NAdam", "RAdam"])
@pytest.mark.parametrize("path", PATHS)
def test_complex_parameters_are_pairs_of_real_ones(name, path):
    make = getattr(optim, name)
    p = nn.Parameter(mq.tensor([1 + 2j]))
    q = nn.Parameter(mq.tensor([1.0, 2.0]))
    optimizer, other = make([p], **path), make([q], **path)
    for _ in range(2):
        p.grad, q.grad = mq.tensor([0.5 - 1j]), mq.tensor([0.5, -1.0])
        optimizer.step(), other.step()
    assert mq.allclose(mq.view_as_real(p.detach())[0], q.detach())


def test_adafactor_of_a_matrix_divides_by_its_rows_and_columns():
    p = nn.Parameter(mq.ones(2, 3, dtype=mq.float64))
    g = mq.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], dtype=mq.float64)  # of rank one
    optimizer = optim.Adafactor([p], lr=0.1, eps=(1e-30, 1e-3))
    p.grad = g
    optimizer.step()
    assert optimizer.state[p]["row_var"].shape == (2, 1)
    assert optimizer.state[p]["col_var"].shape == (1, 3)
    # In the first step the estimate is the square itself, so each element moves by lr times the
    # root mean square of the parameter, 1.
    assert mq.allclose(p, mq.full((2, 3), 0.9, dtype=mq.float64))


def test_adafactor_of_a_vector_keeps_all_squares():
    p, optimizer = trained(lambda params: optim.Adafactor(params, lr=0.1), [3.0])
    assert list(optimizer.state[p]) == ["step", "variance"]
    assert p.item() == pytest.approx(START - 0.1 * START)


def test_muon_steps_by_a_nearly_orthogonal_matrix():
    p = nn.Parameter(mq.zeros(3, 3))
    optimizer = optim.Muon([p], lr=1.0, weight_decay=0.0)
    p.grad = mq.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 4.0]])
    optimizer.step()
    values = mq.linalg_svdvals(p.detach())
    assert ((values > 0.5) & (values < 1.5)).all()
    with pytest.raises(ValueError, match="2D"):
        optim.Muon([nn.Parameter(mq.ones(3))])


def test_sparse_adam_moves_the_rows_that_were_read_and_their_moments_alone():
    table = nn.Embedding(4, 2, sparse=True)
    before = table.weight.detach().clone()
    steps = optim.SparseAdam(list(table.parameters()), lr=0.1)
    table(mq.tensor([1, 3, 1])).sum().backward()
    steps.step()
    assert mq.allclose(before - table.weight, mq.tensor([[0.0] * 2, [0.1] * 2] * 2), atol=1e-6)
    assert steps.state[table.weight]["exp_avg"][:, 0].tolist()[::2] == [0.0, 0.0]


def test_sparse_adam_refuses_dense_gradients():
    p = nn.Parameter(mq.ones(3))
    p.grad = mq.ones(3)
    with pytest.raises(RuntimeError, match="consider Adam instead"):
        optim.SparseAdam([p]).step()


@pytest.mark.parametrize("name", ALL)
def test_options_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match="learning rate"):
        getattr(optim, name)([nn.Parameter(mq.ones(1))], lr=-1.0)
