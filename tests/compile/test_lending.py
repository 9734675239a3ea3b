"""Memory of compiled calls: shared with the engine until somebody mutates it, and used again."""

import importlib.util

import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch
from maquette.compile import CompileError

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed; pip install jax"
)
ENGINES = ["numpy", pytest.param("jax", marks=needs_jax)]
is_shared = torch._C._is_cow_tensor
address = torch._C._data_address
X = mq.arange(6.0).reshape(2, 3) / 6


def trained(engine, between=lambda model: None, steps=3):
    """A model after steps, compiled or eager (None), with something done between them."""
    mq.manual_seed(0)
    model = mq.nn.Linear(3, 4)
    optimizer = mq.optim.Adam(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = step if engine is None else mq.compile(step, backend=engine)
    for _ in range(steps):
        compiled(X)
        between(model)
    return model, compiled


@pytest.mark.parametrize("engine", ENGINES)
def test_state_gradients_and_results_are_the_engines_memory(engine):
    model, step = trained(engine)
    assert all(is_shared(t) for t in (model.weight, model.weight.grad, step(X)))


@needs_jax
def test_the_memory_of_state_is_used_again():
    model, step = trained("jax")
    before = address(model.weight)
    step(X)
    assert address(model.weight) == before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "between",
    [
        lambda model: mq.nn.init.ones_(model.weight),
        lambda model: model.weight.data.mul_(0.5),
        lambda model: model.weight.detach().view(-1)[2:5].zero_(),
        lambda model: model.weight.detach().numpy().fill(0.25),
        lambda model: model.weight.untyped_storage().fill_(0),
        lambda model: setattr(model.weight, "data", mq.ones(4, 3)),
        lambda model: model.load_state_dict({"weight": mq.ones(4, 3), "bias": mq.ones(4)}),
        lambda model: mq._foreach_mul_([model.weight.data, model.bias.data], 0.5),
        lambda model: model.weight.grad.zero_(),
        lambda model: mq.from_dlpack(model.weight.detach()).mul_(0.5),
    ],
)
def test_a_mutation_between_calls_counts(engine, between):
    eager, _ = trained(None, between)
    model, _ = trained(engine, between)
    assert np.allclose(model.weight.detach().numpy(), eager.weight.detach().numpy(), atol=1e-6)
    assert np.allclose(model.weight.grad.numpy(), eager.weight.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(
    "seen",
    [
        lambda model: model.weight.detach().numpy(),
        lambda model: model.weight.detach().numpy()[1:, ::2],
        lambda model: model.weight.detach(),
        lambda model: model.weight.data.t()[1],
        lambda model: model.state_dict()["weight"],
        lambda model: np.from_dlpack(model.weight.detach()),
    ],
)
def test_what_shares_a_parameters_memory_sees_the_next_step(engine, steps, seen):
    model, step = trained(engine, steps=steps)
    before = seen(model)
    for _ in range(3):
        step(X)
        assert np.array_equal(np.asarray(before), np.asarray(seen(model)))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_is_mutated_alone(engine):
    kept = mq.ones(3)
    f = mq.compile(lambda x: (x, x + 1), backend=engine)
    same, more = f(kept)
    same.add_(1)
    more.mul_(0)
    assert (kept.tolist(), same.tolist(), more.tolist()) == ([1] * 3, [2] * 3, [0] * 3)
    assert [t.tolist() for t in f(kept)] == [[1] * 3, [2] * 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_call_gave_is_given_to_another_without_a_copy(engine, monkeypatch):
    f = mq.compile(lambda x: x * 2, backend=engine)
    made = f(X)
    monkeypatch.setattr(f.engine, "given", None)
    assert np.array_equal(f(made).numpy(), 4 * X.numpy())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_that_two_functions_hold_is_one(engine):
    model, step = trained(engine)
    forward = mq.compile(model, backend=engine)
    for _ in range(2):
        with mq.no_grad():
            assert np.allclose(forward(X).numpy(), model(X).numpy(), atol=1e-6)
        assert is_shared(model.weight)
        step(X)


@pytest.mark.parametrize("engine", ENGINES)
def test_buffers_that_become_equal_stay_two(engine):
    class Shifted(mq.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("now", mq.zeros(2))
            self.register_buffer("before", mq.ones(2))

        def forward(self, x):
            self.before.copy_(self.now)
            self.now.add_(x)
            return self.before + self.now

    plain, held = Shifted(), Shifted()
    compiled = mq.compile(held, backend=engine)
    for _ in range(4):
        assert compiled(mq.ones(2)).tolist() == plain(mq.ones(2)).tolist()
    assert held.before.tolist() == plain.before.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_argument_that_is_a_mutated_parameter_is_refused_when_it_is_first_given(engine):
    model, _ = trained(None)

    def step(x):
        with mq.no_grad():
            model.weight.add_(x)
        return model.weight.sum()

    compiled = mq.compile(step, backend=engine)
    compiled(mq.ones(4, 3))
    with pytest.raises(CompileError, match="shares memory with another one"):
        compiled(model.weight.detach())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_call_that_fails_leaves_the_state(engine, monkeypatch):
    model, step = trained(engine)
    before = model.weight.tolist()
    (program,) = step._programs.values()

    def failing(arrays):
        raise RuntimeError("no memory")

    monkeypatch.setattr(program, "forward", failing)
    with pytest.raises(RuntimeError, match="no memory"):
        step(X)
    assert model.weight.tolist() == before
    monkeypatch.undo()
    step(X)
    assert model.weight.tolist() != before


@pytest.mark.parametrize("engine", ENGINES)
def test_inference_tensors_are_mutated_as_before(engine):
    with mq.inference_mode():
        model = mq.nn.BatchNorm1d(3)
        compiled = mq.compile(model, backend=engine)
        for _ in range(2):
            compiled(X)
        model.running_mean.add_(1)
        compiled(X)
    plain = mq.nn.BatchNorm1d(3)
    plain(X), plain(X)
    plain.running_mean.add_(1)
    plain(X)
    assert np.allclose(model.running_mean.numpy(), plain.running_mean.numpy())


@pytest.mark.parametrize("engine", ENGINES)
def test_other_layouts_and_types_are_copied(engine):
    model = mq.nn.Conv2d(2, 3, 3).to(memory_format=mq.channels_last)
    model.reduced = reduced = mq.nn.Parameter(mq.ones(4, dtype=mq.bfloat16))
    optimizer = mq.optim.SGD(model.parameters(), lr=0.5)

    def step(x):
        optimizer.zero_grad()
        (model(x).sum() + model.reduced.sum()).backward()
        optimizer.step()

    compiled = mq.compile(step, backend=engine)
    strides = model.weight.stride()
    before = model.weight.detach().clone()
    for _ in range(2):
        compiled(mq.ones(1, 2, 4, 4))
    assert model.weight.stride() == strides
    assert np.allclose((before - model.weight.detach()).numpy(), 4.0, atol=1e-5)
    assert reduced.tolist() == [0] * 4
