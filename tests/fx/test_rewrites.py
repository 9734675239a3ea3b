"""Rewrites of whole modules: normal forms, fused layers, merged products, annotations."""

import operator
from typing import NamedTuple

import pytest

import maquette as mq
from maquette import fx, nn
from maquette.fx.experimental import optimization
from maquette.fx.experimental.merge_matmul import merge_matmul
from maquette.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from maquette.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from maquette.fx.passes import graph_manipulation
from maquette.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from maquette.fx.passes.graph_transform_observer import GraphTransformObserver
from maquette.fx.passes.pass_manager import (
    PassManager,
    loop_pass,
    this_before_that_pass_constraint,
)


def test_patterns_are_replaced_by_the_package_name():
    graph = fx.symbolic_trace(lambda x, y: mq.relu(x + y))
    fx.replace_pattern(graph, lambda a, b: mq.relu(a + b), lambda a, b: a * b)
    assert mq.equal(graph(mq.full((2,), 3.0), mq.ones(2)), mq.full((2,), 3.0))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)
        self.linear, self.norm1, self.drop = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout()

    def forward(self, x):
        return self.drop(self.norm1(self.linear(self.norm(self.conv(x)).mean((2, 3)))))


def net():
    made = Net()
    for _ in range(2):
        made(mq.randn(4, 2, 3, 3))
    return made.eval()


@pytest.mark.parametrize("rewrite", [optimization.fuse, optimization.optimize_for_inference])
def test_batch_norms_are_taken_in(rewrite):
    model, x = net(), mq.randn(2, 2, 3, 3)
    made = rewrite(model)
    assert not any(n.target in ("norm", "norm1") for n in made.graph.nodes)
    assert mq.allclose(made(x), model(x), atol=1e-5)


def test_dropout_is_removed():
    targets = [n.target for n in optimization.remove_dropout(net()).graph.nodes]
    assert "drop" not in targets


def test_products_with_one_right_operand_are_merged():
    class Products(nn.Module):
        def forward(self, x, y, w):
            return mq.matmul(x, w), mq.matmul(y, w)

    made, (x, y, w) = merge_matmul(Products()), (mq.randn(2, 3), mq.randn(4, 3), mq.randn(3, 5))
    assert [n.target for n in made.graph.nodes].count(mq.matmul) == 1
    for found, expected in zip(made(x, y, w), (x @ w, y @ w)):
        assert mq.allclose(found, expected)


def test_products_that_depend_on_each_other_stay():
    class Products(nn.Module):
        def forward(self, x, w):
            return mq.matmul(mq.matmul(x, w), w)

    assert [n.target for n in merge_matmul(Products()).graph.nodes].count(mq.matmul) == 2


def test_functions_become_operators_but_for_more_arguments():
    traced = fx.symbolic_trace(lambda x, y: mq.add(x, y) + mq.add(x, y, alpha=2))
    targets = [n.target for n in NormalizeOperators(traced).transform().graph.nodes]
    assert targets[2:5] == [operator.add, mq.add, operator.add]


def test_arguments_are_given_by_name():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    call = next(n for n in NormalizeArgs(traced).transform().graph.nodes if n.op == "call_module")
    assert call.args == ()
    assert list(call.kwargs) == ["input"]


def test_calls_are_annotated_with_what_they_give():
    made = AnnotateTypesWithSchema(fx.symbolic_trace(net())).transform()
    assert all(n.type is mq.Tensor for n in made.graph.nodes if n.op == "call_module")


class Pair(NamedTuple):
    first: int
    second: str


@pytest.mark.parametrize("kind", [tuple[int, str], list[str], Pair, tuple[str, ...]])
def test_members_of_annotated_results_have_types(kind):
    graph = fx.Graph()
    member = graph.call_function(operator.getitem, (graph.placeholder("x", type_expr=kind), 1))
    annotate_getitem_nodes(graph)
    assert member.type is str


def test_sizes_of_nodes_are_those_of_results_and_parameters():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3)))
    graph_manipulation.get_size_of_all_nodes(traced, [mq.ones(2, 4)])
    assert [tuple(n.size_bytes) for n in traced.graph.nodes if n.op != "output"] == [
        (32, 32),
        (24, 24 + 4 * 15),
    ]


def test_passes_run_in_an_order_that_constraints_allow():
    def more(x):
        return x + 1

    def twice(x):
        return x * 2

    first = this_before_that_pass_constraint(more, twice)
    assert PassManager([more, loop_pass(twice, n_iter=2)], [first])(3) == 16
    with pytest.raises(RuntimeError, match="constraint violated"):
        PassManager([twice, more], [first])(3)


def test_an_observer_knows_what_a_pass_made_and_erased():
    traced = fx.symbolic_trace(lambda x: mq.relu(x))
    relu = next(n for n in traced.graph.nodes if n.name == "relu")
    with GraphTransformObserver(traced, "swap") as observer:
        with traced.graph.inserting_after(relu):
            relu.replace_all_uses_with(traced.graph.call_function(mq.sigmoid, relu.args))
        traced.graph.erase_node(relu)
    assert (observer.created_nodes, observer.erased_nodes) == ({"sigmoid"}, {"relu"})
