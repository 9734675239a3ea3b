"""Gradual types: sizes that are known are checked, the others named and solved for."""

import operator

import pytest
import sympy

import maquette as mq
from maquette import nn
from maquette.fx import Graph, GraphModule, symbolic_trace
from maquette.fx.gradual_types import (
    Equality,
    GraphTypeChecker,
    Refine,
    broadcast_types,
    register_inference_rule,
    registry,
)
from maquette.fx.gradual_types.inferring import infer_symbolic_types, unify_eq
from maquette.fx.gradual_types.unification import Var
from maquette.fx.tensor_type import Dyn, TensorType
from maquette.fx.tracing.rewriter import RewritingTracer


def typed(*sizes):
    return TensorType(sizes)


def calling(target, *annotations, more=(), **kwargs):
    """A graph of one call of a function or a module, of arguments with these types."""
    graph, root = Graph(), nn.Module()
    inputs = [graph.placeholder(f"x{i}", type_expr=t) for i, t in enumerate(annotations)]
    if isinstance(target, nn.Module):
        root.layer = target
        node = graph.call_module("layer", tuple(inputs))
    else:
        node = graph.call_function(target, (*inputs, *more), kwargs)
    graph.output(node)
    return GraphModule(root, graph)


def checked(traced):
    assert GraphTypeChecker({}, traced).type_check()
    return [node.type for node in traced.graph.nodes]


def inferred(traced):
    checked(traced)
    infer_symbolic_types(traced)
    return [node.type for node in traced.graph.nodes]


def result(target, *annotations, **given):
    return checked(calling(target, *annotations, **given))[-1]


CONV = nn.Conv2d(2, 5, (2, 3), stride=(2, 1), padding=(0, 1), dilation=(1, 2))


@pytest.mark.parametrize(
    ("target", "argument", "more", "expected"),
    [
        (mq.reshape, typed(2, Dyn), ([-1, 4],), typed(Dyn, 4)),
        (mq.transpose, typed(1, 2, Dyn), (0, -1), typed(Dyn, 2, 1)),
        (mq.flatten, typed(2, 3, 4, 5), (1, 2), typed(2, 12, 5)),
        (mq.flatten, typed(2, Dyn, 4), (), typed(Dyn)),
        (mq.flatten, typed(), (), typed(1)),
        (operator.add, typed(2, Dyn), (2.5,), typed(2, Dyn)),
        (nn.BatchNorm2d(3), Dyn, (), typed(Dyn, Dyn, Dyn, Dyn)),
        (CONV, typed(1, 2, 3, 4), (), typed(1, 5, 1, 2)),
        (CONV, typed(2, 9, Dyn), (), typed(5, 4, Dyn)),
        (nn.Conv2d(2, 4, 3, padding="same"), typed(1, Dyn, 6, 7), (), typed(1, 4, 6, 7)),
        (nn.ReLU(), typed(3, Dyn), (), typed(3, Dyn)),
        (nn.MaxPool2d(2, ceil_mode=True), typed(1, 2, 3, 5), (), typed(1, 2, 2, 3)),
        (nn.MaxPool2d((2, 1), (1, 2)), typed(2, 3, 4), (), typed(2, 2, 2)),
        (nn.AdaptiveAvgPool2d((None, 7)), typed(1, 2, Dyn, 4), (), typed(1, 2, Dyn, 7)),
        (nn.Linear(4, 7), typed(Dyn, 3, 4), (), typed(Dyn, 3, 7)),
    ],
)
def test_an_operator_says_the_type_of_its_result(target, argument, more, expected):
    assert result(target, argument, more=more) == expected


@pytest.mark.parametrize(
    ("target", "argument", "more"),
    [
        (mq.reshape, typed(1, 5), ([1, 2, -1],)),
        (mq.reshape, typed(4, Dyn, 5), ([6],)),
        (mq.transpose, typed(1, 2), (0, 2)),
        (mq.flatten, typed(1, 2, 3), (2, 1)),
        (nn.BatchNorm2d(3), typed(1, 2, 5, 5), ()),
        (nn.BatchNorm2d(3), typed(1, 3, 5), ()),
        (nn.Conv2d(2, 4, 5), typed(1, 2, 4, 9), ()),
        (nn.Conv2d(2, 4, 5), typed(1, 3, 9, 9), ()),
        (nn.MaxPool2d(2), typed(9, 9), ()),
        (nn.Linear(4, 7), typed(Dyn, 3), ()),
    ],
)
def test_an_operator_refuses_sizes_that_cannot_be(target, argument, more):
    with pytest.raises(TypeError) as caught:
        result(target, argument, more=more)
    assert "whose arguments have the types" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (typed(1, 2, 3, Dyn), typed(2, 3, 4), typed(1, 2, 3, Dyn)),
        (typed(1, Dyn), typed(Dyn, 2), typed(Dyn, Dyn)),
        (typed(4, 1), typed(3), typed(4, 3)),
        (int, typed(2), typed(2)),
        (int, float, float),
        (Dyn, typed(2), Dyn),
    ],
)
def test_a_sum_is_open_where_one_operand_is(left, right, expected):
    assert result(mq.add, left, right) == expected


def test_a_sum_refuses_sizes_that_do_not_broadcast():
    with pytest.raises(TypeError, match="expected operands that broadcast"):
        result(mq.add, typed(2, 3), typed(2))


def test_broadcasting_replaces_sizes_of_1_only():
    assert broadcast_types(typed(3), typed(2, 1)) == (typed(2, 3), typed(2, 3))
    assert broadcast_types(typed(3), typed(4, 4)) == (typed(4, 3), typed(4, 4))


def test_an_annotation_holds_besides_what_is_inferred():
    traced = calling(nn.Conv2d(2, 5, 1), Dyn)
    node = next(n for n in traced.graph.nodes if n.op == "call_module")
    node.type = typed(2, Dyn, 7, 7)
    assert checked(traced) == [typed(Dyn, Dyn, Dyn, Dyn), typed(2, 5, 7, 7), typed(2, 5, 7, 7)]


def test_an_annotation_of_an_assignment_reaches_the_node():
    class Block(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.norm = nn.BatchNorm2d(channels)

        def forward(self, x: Dyn):
            out: TensorType((2, 2, Dyn, 4)) = self.norm(x)
            return out

    def traced(channels):
        tracer = RewritingTracer()
        graph = tracer.trace(Block(channels))
        return GraphModule(tracer.root, graph)

    assert checked(traced(2))[-1] == typed(2, 2, Dyn, 4)
    with pytest.raises(TypeError, match="features: expected 1, got a size of 2"):
        checked(traced(1))


def test_parameters_have_their_sizes_and_tensor_as_an_annotation_says_nothing():
    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(mq.zeros(2, 3))

        def forward(self, x: mq.Tensor):
            return {"sum": mq.add(x, self.shift), "same": x}

    kinds = checked(symbolic_trace(Shift()))
    assert kinds == [Dyn, typed(2, 3), Dyn, {"sum": Dyn, "same": Dyn}]


def test_a_target_without_a_rule_is_named():
    with pytest.raises(RuntimeError, match=r"No inference rule registered for .*GELU"):
        result(nn.GELU(), Dyn)


def test_a_user_registers_a_rule_once(monkeypatch):
    monkeypatch.setattr(registry, "INFERENCE_RULES", dict(registry.INFERENCE_RULES))

    @register_inference_rule(nn.GELU)
    def same(node, module):
        node.type = node.args[0].type
        return node.type

    assert registry.INFERENCE_RULES[nn.GELU] is same
    with pytest.raises(RuntimeError, match="already registered"):
        register_inference_rule(nn.GELU)(same)


def test_equalities_name_what_stays():
    traced = calling(mq.flatten, typed(2, Dyn, 4, 5), more=(1, 2))
    checked(traced)
    refine = Refine(traced)
    refine.refine()
    assert refine.constraints == [Equality(2, 2), Equality(5, 5)]


@pytest.mark.parametrize(
    ("target", "argument", "expected"),
    [
        (nn.MaxPool2d(2), typed(Dyn, Dyn, Dyn), ["~3", "~1", "~2"]),
        (nn.Linear(4, 7), typed(Dyn, Dyn, 4), ["~2", "~3", 4]),
        (nn.ReLU(), typed(Dyn, 2), ["~1", 2]),
        (CONV, Dyn, ["~4", "~1", "~2", "~3"]),
    ],
)
def test_sizes_that_stay_get_one_symbol(target, argument, expected):
    sizes = [sympy.Symbol(s) if isinstance(s, str) else s for s in expected]
    assert inferred(calling(target, argument))[0] == TensorType(sizes)


def test_a_convolution_gives_formulas():
    height, width = sympy.symbols("~2 ~3")
    sizes = inferred(calling(CONV, Dyn))[-1].__args__
    assert sizes[1:] == (5, sympy.floor(height / 2), sympy.floor(width - 2))


def test_a_residual_sum_takes_several_rounds():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(2)

        def forward(self, x):
            return self.norm(x) + x

    kinds = inferred(symbolic_trace(Block()))
    assert all(kind == kinds[0] for kind in kinds)


def test_solving_follows_names_and_refuses_two_numbers():
    a, b, c = Var(0), Var(1), Var(2)
    assert unify_eq([Equality(a, b), Equality(3, b), Equality(c, a)]) == {a: 3, b: 3, c: 3}
    with pytest.raises(TypeError, match="got 3 and 4 for one size"):
        unify_eq([Equality(a, 3), Equality(a, 4)])
