"""`out_dtype`, `wrap`, `invoke_subgraph`, states of generators, `auto_functionalized`."""

import pytest

import maquette as mq
from maquette.fx.tracing.proxy_tensor import make_fx
from maquette.higher_order import (
    auto_functionalized,
    invoke_subgraph,
    out_dtype,
    run_and_save_rng_state,
    run_with_rng_state,
    wrap,
)

aten = mq.ops.aten


def test_out_dtype_computes_in_the_wider_dtype():
    x = mq.full((2, 2), 100, dtype=mq.int8)
    found = out_dtype(aten.mm.default, mq.int32, x, x)
    assert (found.dtype, found[0, 0].item()) == (mq.int32, 20000)


def test_out_dtype_takes_functional_overloads_of_one_tensor():
    with pytest.raises(ValueError, match="must be an OpOverload"):
        out_dtype(aten.mm, mq.int32)
    with pytest.raises(ValueError, match="functional operator"):
        out_dtype(aten.add_.Tensor, mq.int32)


def test_wrap_is_one_node_of_a_trace():
    traced = make_fx(lambda x: wrap(lambda y: y.sin() + 1, x))(mq.ones(2))
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [wrap]
    assert (traced(mq.zeros(2)) == 1).all()


def test_invoke_subgraph_is_differentiated_through():
    x = mq.ones(2, requires_grad=True)
    invoke_subgraph(lambda y: (y * y).sum(), "square", x).backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(AssertionError, match="operands must be a list of tensors"):
        invoke_subgraph(lambda y: y, "one", "x")


def test_a_random_operator_draws_again_what_it_drew():
    state, first = run_and_save_rng_state(aten.rand.default, [3])
    assert (run_with_rng_state(state, aten.rand.default, [3]) == first).all()


def test_auto_functionalized_leaves_arguments_alone():
    with mq.library._scoped_library("auto_test", "DEF") as lib:
        lib.define("fill(Tensor(a!) x, int n) -> Tensor")
        lib.impl("fill", lambda x, n: x.fill_(n) + 1, "CompositeExplicitAutograd")
        x = mq.zeros(2)
        result, new = auto_functionalized(mq.ops.auto_test.fill.default, x=x, n=3)
        assert (x.tolist(), new.tolist(), result.tolist()) == ([0, 0], [3, 3], [4, 4])
    with pytest.raises(AssertionError, match="mutates arguments"):
        auto_functionalized(aten.add.Tensor)
