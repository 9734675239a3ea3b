"""What a graph keeps though nothing uses it, and what an error in a graph says."""

import operator

import pytest

import maquette as mq
from maquette import fx
from maquette.fx import Graph, make_fx

aten, profiler = mq.ops.aten, mq.ops.profiler


def impure(target):
    graph = Graph()
    return graph.call_function(target, (graph.placeholder("x"),)).is_impure()


@pytest.mark.parametrize(
    "target",
    [
        aten._assert_async.default,
        aten._assert_async,
        aten._assert_scalar.default,
        aten._assert_tensor_metadata.default,
        aten.add_,
        aten.rand,
        mq._assert_async,
        mq.set_grad_enabled,
        operator.setitem,
        profiler._record_function_enter_new,
        profiler._record_function_enter_new.default,
        profiler._record_function_exit,
    ],
)
def test_a_graph_keeps_what_is_called_for_what_it_does(target):
    assert impure(target)


@pytest.mark.parametrize("target", [aten.add, aten.add.Tensor, operator.iadd, mq.add])
def test_a_graph_drops_what_only_computes(target):
    assert not impure(target)


@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_an_object_that_an_operator_made_is_that_operators_node(tracing_mode):
    def labelled(x):
        handle = profiler._record_function_enter_new("adding")
        y = x + 1
        profiler._record_function_exit(handle)
        return y

    traced = make_fx(labelled, tracing_mode=tracing_mode)(mq.ones(2))
    traced.graph.eliminate_dead_code()
    enter, _, leave = (n for n in traced.graph.nodes if n.op == "call_function")
    assert enter.target is profiler._record_function_enter_new.default
    assert leave.args == (enter,)
    assert traced(mq.ones(2)).tolist() == [2, 2]


def test_an_exit_asks_for_a_range():
    with pytest.raises(RuntimeError, match="_RecordFunction' for argument 'record' but found"):
        profiler._record_function_exit(3)


def test_an_error_in_a_graph_is_told_on_stderr_with_its_line(capsys):
    traced = fx.symbolic_trace(lambda x: x.missing() + 1)
    with pytest.raises(AttributeError) as caught:
        traced(mq.ones(2))
    said = "Call using an FX-traced Module, line 5 of the traced Module's generated forward"
    assert caught.value.__notes__[0].startswith(said)
    printed = capsys.readouterr().err
    assert printed.startswith(said)
    assert "missing = x.missing()" in printed.split("~~~ <--- HERE")[0]
