"""`torch.utils.checkpoint`: the same results and gradients, from less that is kept."""

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn
from maquette.torch.utils._python_dispatch import TorchDispatchMode
from maquette.torch.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

WAYS = [False, True]


def block():
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))


def gradients(run, module):
    """The result, and gradients of the input and of the parameters."""
    module.zero_grad()
    x = mq.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    out = run(x)
    out.square().sum().backward()
    return [out, x.grad, *(p.grad.clone() for p in module.parameters())]


@pytest.mark.parametrize("use_reentrant", WAYS)
def test_results_and_gradients_are_the_same(use_reentrant):
    module = block()
    plain = gradients(module, module)
    kept = gradients(lambda x: checkpoint(module, x, use_reentrant=use_reentrant), module)
    for a, b in zip(plain, kept):
        assert mq.equal(a, b)


@pytest.mark.parametrize("use_reentrant", WAYS)
def test_the_block_runs_again_in_backward_only(use_reentrant):
    calls = []

    def function(x):
        calls.append(torch.is_grad_enabled())
        return x.sin()

    x = mq.ones(2, requires_grad=True)
    out = checkpoint(function, x, use_reentrant=use_reentrant)
    assert len(calls) == 1
    out.sum().backward()
    assert len(calls) == 2
    with torch.no_grad():
        checkpoint(function, x, use_reentrant=use_reentrant)
    assert len(calls) == 3


@pytest.mark.parametrize("use_reentrant", WAYS)
def test_random_numbers_are_drawn_again_and_leave_no_trace(use_reentrant):
    drawn = []

    def function(x):
        drawn.append(mq.rand(3))
        return x * drawn[-1]

    x = mq.ones(3, requires_grad=True)
    out = checkpoint(function, x, use_reentrant=use_reentrant)
    after = mq.get_rng_state()
    out.sum().backward()
    assert mq.equal(drawn[0], drawn[1])
    assert mq.equal(x.grad, drawn[0])
    assert mq.equal(mq.get_rng_state(), after)


def test_what_is_saved_between_is_not_kept():
    module = nn.Sequential(*[nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 4)) for _ in range(4)])

    class Model(nn.Module):
        def __init__(self, keep):
            super().__init__()
            self.blocks, self.keep = module, keep

        def forward(self, x):
            for each in self.blocks:
                x = each(x) if self.keep else checkpoint(each, x, use_reentrant=False)
            return x.sum()

    x = mq.ones(512, 4)
    plain = mq.plan.plan(Model(True), (x,), train=True)
    less = mq.plan.plan(Model(False), (x,), train=True)
    assert less.peak_bytes < 0.6 * plain.peak_bytes
    assert less.flops > plain.flops


def test_keywords_and_several_results_pass():
    def function(a, *, k):
        return a * k, (a + k,)

    a = mq.ones(2, requires_grad=True)
    product, (total,) = checkpoint(function, a, k=3.0, use_reentrant=False)
    (product * total).sum().backward()
    assert a.grad.tolist() == [15.0, 15.0]


def test_backward_can_be_differentiated_again():
    x = mq.tensor([2.0], requires_grad=True)
    out = checkpoint(lambda t: t**3, x, use_reentrant=False)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert (g.item(), h.item()) == (12.0, 12.0)


def test_backward_twice_runs_the_block_twice():
    x = mq.ones(2, requires_grad=True)
    out = checkpoint(mq.sin, x, use_reentrant=False).sum()
    out.backward(retain_graph=True)
    once = x.grad.clone()
    out.backward()
    assert mq.equal(x.grad, 2 * once)


def test_a_block_that_does_something_else_is_found_out():
    turns = iter([lambda x: x.sin().exp(), lambda x: x.sin()])
    x = mq.ones(2, requires_grad=True)
    out = checkpoint(lambda t: next(turns)(t), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        out.sum().backward()
    shapes = iter([2, 3])
    out = checkpoint(lambda t: t.expand(next(shapes), 2).sin(), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        out.sum().backward()


@pytest.mark.parametrize("early", [True, False])
def test_early_stop_leaves_out_the_rest(early):
    ends = []

    def function(x):
        out = x.sin()
        ends.append(1)
        return out

    with set_checkpoint_early_stop(early):
        out = checkpoint(function, mq.ones(2, requires_grad=True), use_reentrant=False)
    out.sum().backward()
    assert len(ends) == (1 if early else 2)


@pytest.mark.parametrize("use_reentrant", WAYS)
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_a_sequence_is_cut_into_segments(segments, use_reentrant):
    stages = nn.Sequential(*[block() for _ in range(4)])
    plain = gradients(stages, stages)
    cut = gradients(
        lambda x: checkpoint_sequential(stages, segments, x, use_reentrant=use_reentrant), stages
    )
    for a, b in zip(plain, cut):
        assert mq.allclose(a, b)


def test_not_saying_how_warns():
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(mq.sin, mq.ones(1, requires_grad=True))


def test_what_a_block_saved_is_fetched_once_in_a_backward():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert len(ctx.saved_tensors) == 1
            return ctx.saved_tensors[0] * grad

    out = checkpoint(Twice.apply, mq.ones(2, requires_grad=True).sin(), use_reentrant=False)
    with pytest.raises(CheckpointError, match="already unpacked once"):
        out.sum().backward()


def test_a_backward_within_another_fetches_for_itself():
    def block(a):
        inner = a.sin().cos()
        return inner, inner.sin()

    x = mq.ones((), requires_grad=True)
    inner, outer = checkpoint(block, x, use_reentrant=False)
    outer.grad_fn.register_hook(lambda *grads: inner.backward(retain_graph=True))
    outer.backward(retain_graph=True)
    assert mq.allclose(x.grad, -(x.sin().sin() * x.cos()) * (1 + x.sin().cos().cos()))


def test_a_mode_sees_only_the_operators_of_the_block():
    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.name())
            return func(*args, **(kwargs or {}))

    with Names() as names:
        checkpoint(lambda x: x.sin() * 2, mq.ones(2, requires_grad=True), use_reentrant=False)
    assert names.seen == ["aten::ones", "aten::sin", "aten::mul.Tensor"]
