"""Passes: replacing, splitting, folding, matching, shapes."""

import operator
from typing import Any

import pytest

import maquette as mq
from maquette import fx, nn
from maquette.fx.passes.const_fold import split_const_subgraphs
from maquette.fx.passes.dialect.common.cse_pass import CSEPass
from maquette.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from maquette.fx.passes.infra.pass_base import PassResult
from maquette.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint
from maquette.fx.passes.operator_support import OperatorSupportBase
from maquette.fx.passes.shape_prop import ShapeProp
from maquette.fx.passes.split_module import split_module
from maquette.fx.passes.utils.fuser_utils import fuse_by_partitions
from maquette.fx.passes.utils.matcher_utils import SubgraphMatcher
from maquette.fx.subgraph_rewriter import replace_pattern


def test_patterns_are_replaced_wherever_they_occur() -> None:
    traced = fx.symbolic_trace(lambda x: mq.relu(x + 1) * mq.relu(x + 1))
    done = replace_pattern(traced, lambda a: mq.relu(a + 1), lambda a: mq.sigmoid(a))
    assert len(done) == 2
    traced.graph.lint()
    x = mq.randn(3)
    assert mq.allclose(traced(x), mq.sigmoid(x) * mq.sigmoid(x))


def test_a_pattern_that_others_look_into_is_left() -> None:
    traced = fx.symbolic_trace(lambda x: (y := x + 1, mq.relu(y)))
    assert replace_pattern(traced, lambda a: mq.relu(a + 1), lambda a: a) == []


def test_matches_know_their_nodes() -> None:
    graph = fx.symbolic_trace(lambda x, y: mq.mm(x, y).relu() + y).graph
    pattern = fx.symbolic_trace(lambda a, b: mq.mm(a, b).relu()).graph
    (match,) = SubgraphMatcher(pattern).match(graph)
    assert [n.name for n in match.placeholder_nodes] == ["x", "y"]
    assert [n.name for n in match.returning_nodes] == ["relu"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(mq.ones(4))

    def forward(self, x: mq.Tensor) -> mq.Tensor:
        return (self.first(x) * self.scale).relu().sum(0)


def test_modules_are_split_by_a_function_of_nodes() -> None:
    module = Net()
    traced = fx.symbolic_trace(module)
    late = {"relu", "sum_1"}
    split = split_module(traced, module, lambda node: int(node.name in late))
    assert [name for name, _ in split.named_children()] == ["submod_0", "submod_1"]
    x = mq.randn(2, 3)
    assert mq.equal(split(x), module(x))


def test_splits_that_need_one_another_are_refused() -> None:
    traced = fx.symbolic_trace(lambda x: (x + 1) * 2 - 3)
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(traced, traced, lambda node: int(node.target is operator.mul))


def test_shapes_are_noted_with_and_without_data() -> None:
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(mq.ones(2, 3))
    shapes = {n.name: tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes}
    assert shapes["first"] == (2, 4)
    assert shapes["output"] == (4,)
    again = fx.symbolic_trace(Net())
    ShapeProp(again, mq.FakeTensorMode()).propagate(mq.ones(5, 3))
    assert {n.name: tuple(n.meta["tensor_meta"].shape) for n in again.graph.nodes}["relu"] == (5, 4)


def test_constants_are_folded_when_first_called() -> None:
    class WithConstant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(mq.ones(2) * 3)

        def forward(self, x: mq.Tensor) -> mq.Tensor:
            return x * (self.weight + self.weight)

    folded = split_const_subgraphs(WithConstant())
    assert folded(mq.ones(2)).tolist() == [6.0, 6.0]
    assert sum(n.op == "call_function" for n in folded.graph.nodes) == 1


def test_common_subexpressions_are_computed_once() -> None:
    graph = fx.make_fx(lambda x: x.sin() + x.sin() + mq.rand_like(x) + mq.rand_like(x))(mq.ones(2))
    result = CSEPass().call(graph)
    names = [n.name for n in result.graph_module.graph.nodes]
    assert result.modified
    assert sum("sin" in n for n in names) == 1
    assert sum("rand" in n for n in names) == 2


def test_pass_managers_order_passes_and_name_what_failed() -> None:
    ran: list[str] = []

    def first(module: Any) -> PassResult:
        ran.append("first")
        return PassResult(module, False)

    def second(module: Any) -> PassResult:
        ran.append("second")
        raise ValueError("no")

    manager = PassManager([second, first], [this_before_that_pass_constraint(first, second)])
    with pytest.raises(Exception, match=r"running the 'second' pass after .*\['first'\]"):
        manager(fx.symbolic_trace(lambda x: x))
    assert ran == ["first", "second"]


class OnlyAdd(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node.op == "call_function" and node.target is operator.add


def test_what_a_backend_supports_is_fused_without_circles():
    def program(a: mq.Tensor, b: mq.Tensor) -> mq.Tensor:
        c = a + b
        d = c.relu()
        return c + d + b

    traced = fx.symbolic_trace(program)
    partitioner = CapabilityBasedPartitioner(traced, OnlyAdd(), allows_single_node_partition=True)
    parts = partitioner.propose_partitions()
    assert sorted(sorted(n.name for n in p.nodes) for p in parts) == [["add"], ["add_1", "add_2"]]
    fused = partitioner.fuse_partitions(parts)
    assert [n.op for n in fused.graph.nodes].count("call_module") == 2
    x = mq.tensor([1.0, -2.0])
    assert mq.equal(fused(x, x), program(x, x))


def test_nodes_that_cannot_run_as_one_are_refused():
    traced = fx.symbolic_trace(lambda x: (x + 1).relu() + (x + 1))
    nodes = [n for n in traced.graph.nodes if n.target is operator.add]
    with pytest.raises(AssertionError, match="dependency cycles"):
        fuse_by_partitions(traced, [[nodes[0], nodes[2]]])


def test_the_package_hands_on_replace_pattern() -> None:
    from maquette import fx
    from maquette.fx.subgraph_rewriter import replace_pattern

    assert fx.replace_pattern is replace_pattern
