"""Selective checkpointing, blocks in blocks, what is told of a mismatch."""

import weakref
from functools import partial

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn
from maquette.torch.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
)

mm = mq.ops.aten.mm.default
X = mq.linspace(-1, 1, 9).reshape(3, 3)


def products(x):
    return (mq.mm(x.sin(), x).cos()).sum()


def gradient(function, policy=None, **options):
    x = X.clone().requires_grad_()
    if policy is None:
        out = function(x)
    else:
        contexts = partial(create_selective_checkpoint_contexts, policy, **options)
        out = checkpoint(function, x, use_reentrant=False, context_fn=contexts)
    return torch.autograd.grad(out, x)[0]


class Counted(mq.dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("policy", [*CheckpointPolicy, True, False])
def test_gradients_are_the_same_whatever_is_kept(policy):
    found = gradient(products, lambda ctx, op, *args, **kwargs: policy)
    assert torch.allclose(found, gradient(products))


def test_listed_operators_run_once():
    def twice(x):
        return mq.mm(x, x).sin().sum()

    with Counted() as kept:
        gradient(twice, [mm])
    with Counted() as again:
        gradient(twice, [])
    assert again.calls.count(mm) == kept.calls.count(mm) + 1


def test_a_policy_is_told_of_the_call():
    seen = []

    def policy(ctx, op, *args, **kwargs):
        seen.append((ctx.is_recompute, str(op), ctx.op_output.shape, len(args)))
        return CheckpointPolicy.PREFER_RECOMPUTE

    gradient(products, policy)
    assert seen[1] == (False, "aten.mm.default", (3, 3), 2)


def test_policies_of_other_kinds_are_refused():
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        create_selective_checkpoint_contexts([mq.ops.aten.mm])
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)


def mutating(x):
    product = mq.mm(x, x)
    product.add_(1)
    return product.sin().sum()


def test_a_kept_tensor_may_not_be_mutated():
    with pytest.raises(RuntimeError, match=r"has been mutated: it was float32\[3, 3\]"):
        gradient(mutating, [mm])
    gradient(mutating, [mm], allow_cache_entry_mutation=True)


def test_what_is_kept_is_counted_in_plans():
    class Model(nn.Module):
        def __init__(self, policy):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])
            self.policy = policy

        def block(self, x):
            for layer in self.blocks:
                x = layer(x).tanh()
            return x

        def forward(self, x):
            contexts = partial(create_selective_checkpoint_contexts, self.policy)
            return checkpoint(self.block, x, use_reentrant=False, context_fn=contexts).sum()

    x = mq.ones(512, 64)
    kept = mq.plan.plan(Model([mq.ops.aten.addmm.default]), (x,), train=True)
    none = mq.plan.plan(Model([]), (x,), train=True)
    assert kept.flops < none.flops
    assert kept.peak_bytes > none.peak_bytes


def test_a_block_in_a_block_holds_nothing_of_the_outer_one():
    def chain(x, depth):
        if depth == 0:
            return x.sin().cos()
        inner = partial(chain, depth=depth - 1)
        half = checkpoint(inner, x, use_reentrant=False)
        return checkpoint(inner, half, use_reentrant=False)

    x = X.clone().requires_grad_()
    found = torch.autograd.grad(chain(x, 3).sum(), x)[0]
    plain = X.clone().requires_grad_()
    value = plain
    for _ in range(8):
        value = value.sin().cos()
    assert torch.allclose(found, torch.autograd.grad(value.sum(), plain)[0])


def waves(x):
    for _ in range(4):
        x = x.sin()
    return x


def test_nested_blocks_keep_less_than_one_level():
    class Deep(nn.Module):
        def __init__(self, nested):
            super().__init__()
            self.nested = nested

        def half(self, x):
            for _ in range(4):
                x = checkpoint(waves, x, use_reentrant=False) if self.nested else waves(x)
            return x

        def forward(self, x):
            for _ in range(4):
                x = checkpoint(self.half, x, use_reentrant=False)
            return x.sum()

    x = mq.ones(65536, requires_grad=True)
    nested = mq.plan.plan(Deep(True), (x,), train=True)
    single = mq.plan.plan(Deep(False), (x,), train=True)
    assert nested.peak_bytes < single.peak_bytes


def test_the_autocast_region_is_that_of_the_first_run():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = checkpoint(
            lambda x: mq.mm(x, x).sin(), X.clone().requires_grad_(), use_reentrant=False
        )
    out.sum().backward()  # in float32 it would save other tensors
    assert out.dtype == torch.bfloat16


@pytest.mark.parametrize("by_setting", [True, False])
def test_a_mismatch_tells_what_ran(by_setting):
    turns = iter([lambda x: x.sin().exp(), lambda x: x.sin()])
    setting = True if by_setting else None
    with set_checkpoint_debug_enabled(setting):
        out = checkpoint(
            lambda x: next(turns)(x), X.clone().requires_grad_(), use_reentrant=False,
            debug=not by_setting,
        )  # fmt: skip
    told = r"original forward:\n  aten.sin.default\(float32\[3, 3\]\)\n  aten.exp"
    with pytest.raises(CheckpointError, match=told):
        out.sum().backward()


def test_the_operator_is_called_under_every_transform():
    f = partial(checkpoint, lambda x: x.sin() * 2, use_reentrant=False)
    assert torch.equal(mq.func.vmap(f)(X), X.sin() * 2)
    assert torch.equal(mq.func.grad(lambda x: f(x).sum())(X), X.cos() * 2)
    traced = mq.fx.make_fx(f)(X)
    assert torch.equal(traced(X), X.sin() * 2)
    with mq.FakeTensorMode() as mode:
        assert f(mode.from_tensor(X)).shape == (3, 3)


def test_what_is_kept_is_let_go_when_it_is_taken() -> None:
    x = X.clone().requires_grad_()
    contexts = create_selective_checkpoint_contexts([mm])
    out = checkpoint(products, x, use_reentrant=False, context_fn=lambda: contexts)
    held = weakref.ref(contexts[0].storage[mm][0].val)
    out.backward(retain_graph=True)
    assert held() is None
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        out.backward(retain_graph=True)
