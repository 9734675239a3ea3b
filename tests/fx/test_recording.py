"""Recorders, the generated functions of `make_fx`, against the plain way to record a call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
from maquette import fx
from maquette.fx.tracing import proxy_mode

ops = mq.ops.aten


def pointwise(x: mq.Tensor) -> mq.Tensor:
    """Numbers on both sides, a default that is given and one that is not, twice the same tensor."""
    return mq.add(2.5 * x, x, alpha=1) + mq.add(x, x, alpha=3) - x * x


def of_lists(x: mq.Tensor) -> mq.Tensor:
    """Dimensions as lists, defaults at the end, flags, and dtypes."""
    y = x.sum([0, 1], keepdim=True) + x.mean((-1,)) + x.permute(1, 0).amax()
    return y.sum(dtype=mq.float64) + mq.var(x, [0], correction=0).sum(0) + x.sum()


def of_several(x: mq.Tensor) -> object:
    """Lists of tensors in and out, several results, an optional tensor that is not given."""
    a, b = x.split(2)
    values, indices = mq.cat([a, b, x]).max(0)
    norm = ops.native_layer_norm.default(x, [4], None, x[0], 1e-5)
    return [values, indices, *norm, ops.clamp.Tensor(x, None, x)]


def of_writes(x: mq.Tensor) -> mq.Tensor:
    """Tensors that are written, and read again."""
    y = x.clone()
    y.add_(1).mul_(x)
    y[0].zero_()
    return y.view(16) + y.detach().flatten()


def of_constants(x: mq.Tensor) -> mq.Tensor:
    """Values that are known, and a branch by one."""
    one = mq.tensor(1.0)
    two = one + one
    return x * two if two.item() > 1 else x


def of_random(x: mq.Tensor) -> mq.Tensor:
    """Random numbers, and tensors made from nothing."""
    return mq.nn.functional.dropout(x, 0.5) + mq.rand_like(x) + mq.ones(4)


PROGRAMS = (pointwise, of_lists, of_several, of_writes, of_constants, of_random)


def traced(program: Callable[[mq.Tensor], object], mode: str) -> fx.GraphModule:
    return fx.make_fx(program, tracing_mode=mode)(mq.ones(4, 4))


def said(made: fx.GraphModule) -> list[object]:
    """All that a graph says: its nodes in order, whom they use, their users and values."""
    return [
        (n.name, n.op, n.target, repr(n.args), repr(n.kwargs), [u.name for u in n.users])
        + (repr(n.meta.get("val")), repr(n.meta.get("tensor_meta")), sorted(n.meta))
        for n in made.graph.nodes
    ]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_recorders_write_what_the_plain_way_writes(
    program: Callable[[mq.Tensor], object], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = said(traced(program, mode))
    monkeypatch.setattr(proxy_mode, "recorder", lambda mode, op, name: None)
    assert found == said(traced(program, mode))


def test_arguments_of_recorded_nodes_cannot_be_changed() -> None:
    made = traced(lambda x: x.sum([0, 1]), "fake")
    (node,) = made.graph.find_nodes(op="call_function", target=ops.sum.dim_IntList)
    with pytest.raises(TypeError, match="does not support mutation"):
        node.args[1].append(2)


def test_a_mode_with_a_handler_of_its_own_sees_every_call() -> None:
    seen = []

    class Seeing(proxy_mode.ProxyTorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_dispatch__(func, types, args, kwargs)

    tracer = fx.tracing.operator_tracing.PythonKeyTracer()
    tracer.graph, tracer.root = fx.Graph(), mq.nn.Module()
    x = mq.ones(2)
    with Seeing(tracer, "real"):
        x + 1, x + 2
    assert seen == [ops.add.Tensor] * 2


def test_a_size_that_data_decides_is_its_tensors_in_a_fake_trace_too() -> None:
    made = fx.make_fx(lambda x: x.new_zeros(x.nonzero().shape[0]), tracing_mode="fake")(mq.ones(3))
    assert "sym_size.int(nonzero, 0)" in made.code
