"""Graphs and nodes: building, moving, erasing, checking, copying, text."""

import copy
import operator
import pickle

import pytest

import maquette as mq
from maquette import fx
from maquette.fx.immutable_collections import immutable_list


def small() -> tuple[fx.Graph, dict[str, fx.Node]]:
    graph = fx.Graph()
    x = graph.placeholder("x")
    add = graph.call_function(operator.add, (x, 1))
    neg = graph.call_method("neg", (add,))
    graph.output([neg, x])
    return graph, {n.name: n for n in graph.nodes}


def test_nodes_know_their_users() -> None:
    _, nodes = small()
    assert list(nodes["x"].users) == [nodes["add"], nodes["output"]]
    assert nodes["output"].all_input_nodes == [nodes["neg"], nodes["x"]]


def test_names_are_unique_identifiers() -> None:
    graph = fx.Graph()
    names = [graph.create_node("placeholder", n).name for n in ("x", "x", "for", "1st", "a.b", "x")]
    assert names == ["x", "x_1", "for_1", "_1st", "a_b", "x_2"]


def test_arguments_are_immutable() -> None:
    _, nodes = small()
    assert isinstance(nodes["output"].args[0], immutable_list)
    with pytest.raises(TypeError, match="does not support mutation"):
        nodes["output"].args[0].append(1)


def test_assigning_arguments_updates_users() -> None:
    graph, nodes = small()
    nodes["neg"].args = (nodes["x"],)
    assert not nodes["add"].users
    graph.erase_node(nodes["add"])
    graph.lint()
    assert [n.name for n in graph.nodes] == ["x", "neg", "output"]


def test_erasing_a_used_node_is_refused() -> None:
    graph, nodes = small()
    with pytest.raises(RuntimeError, match="Tried to erase Node add but it still had 1 users"):
        graph.erase_node(nodes["add"])


def test_insert_points_nest() -> None:
    graph, nodes = small()
    with graph.inserting_before(nodes["neg"]):
        first = graph.call_function(operator.mul, (nodes["add"], 2))
        with graph.inserting_after(nodes["x"]):
            second = graph.call_function(operator.abs, (nodes["x"],))
    order = [n.name for n in graph.nodes]
    assert order == ["x", "abs_1", "add", "mul", "neg", "output"]
    assert second < nodes["add"] < first < nodes["neg"]


def test_order_stays_true_through_many_insertions() -> None:
    graph, nodes = small()
    for _ in range(60):  # labels between two neighbours run out
        with graph.inserting_after(nodes["x"]):
            graph.call_function(operator.abs, (nodes["x"],))
    listed = list(graph.nodes)
    assert listed == sorted(listed)


def test_replacing_all_uses() -> None:
    graph, nodes = small()
    with graph.inserting_after(nodes["add"]):
        mul = graph.call_function(operator.mul, (nodes["add"], 3))
    changed = nodes["add"].replace_all_uses_with(mul, lambda user: user is not mul)
    assert changed == [nodes["neg"]]
    assert nodes["neg"].args == (mul,)


def test_lint_finds_use_before_definition() -> None:
    graph, nodes = small()
    nodes["add"].prepend(nodes["neg"])
    with pytest.raises(RuntimeError, match="'add' of Node 'neg' was used before it has been"):
        graph.lint()


def test_dead_code_goes_and_effects_stay() -> None:
    graph, nodes = small()
    with graph.inserting_after(nodes["x"]):
        graph.call_function(operator.mul, (nodes["x"], 2))
        graph.call_function(mq.ops.aten.add_.Tensor, (nodes["x"], 2))
    assert graph.eliminate_dead_code()
    targets = [n.target for n in graph.nodes if n.op == "call_function"]
    assert targets == [mq.ops.aten.add_.Tensor, operator.add]


def test_deep_copies_share_no_nodes() -> None:
    graph, _ = small()
    copied = copy.deepcopy(graph)
    assert str(copied) == str(graph)
    assert not set(copied.nodes) & set(graph.nodes)


def test_graphs_of_any_length_pickle() -> None:
    graph = fx.Graph()
    node = graph.placeholder("x")
    for _ in range(5000):
        node = graph.call_function(operator.add, (node, 1))
    graph.output(node)
    assert str(pickle.loads(pickle.dumps(graph))) == str(graph)


def test_text_of_a_graph() -> None:
    graph, _ = small()
    assert str(graph).split("\n")[1:] == [
        "    %x : [num_users=2] = placeholder[target=x]",
        "    %add : [num_users=1] = call_function[target=operator.add]"
        "(args = (%x, 1), kwargs = {})",
        "    %neg : [num_users=1] = call_method[target=neg](args = (%add,), kwargs = {})",
        "    return [neg, x]",
    ]


def test_table_of_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    small()[0].print_tabular()
    lines = capsys.readouterr().out.split("\n")
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[3].split() == ["call_function", "add", "operator.add", "(x,", "1)", "{}"]


def test_code_runs_as_the_graph_says() -> None:
    graph, _ = small()
    module = fx.GraphModule({}, graph)
    neg, x = module(mq.tensor([1.0, 2.0]))
    assert neg.tolist() == [-2.0, -3.0]
    assert x.tolist() == [1.0, 2.0]


def test_json_runs_to_the_same_result() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(mq.ops.aten.sum.dim_IntList, (x, [0]), {"dtype": mq.float64})
    z = graph.call_function(mq.relu, (y,))
    graph.output((z, {"k": slice(1, None), "inf": float("inf")}))
    loaded = fx.from_json(fx.to_json(graph))
    assert str(loaded) == str(graph)
    value = mq.tensor([[1.0, -5.0], [2.0, 3.0]])
    assert fx.GraphModule({}, loaded)(value)[0].tolist() == [3.0, 0.0]


def test_json_refuses_what_has_no_name() -> None:
    graph = fx.Graph()
    graph.call_function(lambda: 1)
    with pytest.raises(TypeError, match="has no public name"):
        fx.to_json(graph)


def test_json_imports_nothing_that_it_names() -> None:
    text = '{"format": 1, "nodes": [{"op": "call_function", "name": "a", "args": [], '
    text += '"kwargs": {}, "target": {"function": "antigravity.fly"}}]}'
    with pytest.raises(ValueError, match=r"antigravity\.fly is a function of a program"):
        fx.from_json(text)


def test_code_names_functions_as_operator_tables_do() -> None:
    graph = fx.symbolic_trace(lambda x: abs(operator.abs(x)) + 1)
    assert "_operator_abs(x)" in graph.code
    assert "call_function[target=operator.abs]" in str(graph.graph)
    assert fx.node._get_qualified_name(operator.add) == "_operator.add"
    assert graph(mq.tensor(-2.0)) == 3


def test_the_text_of_a_graph_leaves_out_its_annotation() -> None:
    class Annotated(mq.nn.Module):
        def forward(self, x: mq.Tensor) -> mq.Tensor:
            return x + 1

    assert str(fx.symbolic_trace(Annotated()).graph).startswith("graph():\n")
