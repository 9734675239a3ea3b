"""Modules cut by tags and by what a backend supports, parts by their source."""

import pytest

import maquette as mq
from maquette import fx, nn
from maquette.fx.passes.operator_support import OperatorSupport
from maquette.fx.passes.split_module import split_module
from maquette.fx.passes.split_utils import split_by_tags
from maquette.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase
from maquette.fx.passes.utils.source_matcher_utils import (
    check_subgraphs_connected,
    get_source_partitions,
)
from maquette.transforms import vmap


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.p = nn.Parameter(mq.ones(4))

    def forward(self, x):
        u = mq.relu(self.a(x))
        v = self.b(u + self.p) * u.size(0)
        return v + u, self.p


class Modules(OperatorSupport):
    def is_node_supported(self, submodules, node):
        return node.op == "call_module" or node.target == "size"


def tagged(tag_of):
    module = fx.symbolic_trace(Model())
    called = [n for n in module.graph.nodes if n.op.startswith("call")]
    for i, node in enumerate(called):
        node.tag = tag_of(i)
    return module


def test_split_by_tags_runs_as_the_whole():
    module, x = tagged(lambda i: f"part{i // 3}"), mq.randn(2, 4)
    split, paths = split_by_tags(module, ["part0", "part1", "part2"], return_fqn_mapping=True)
    assert [name for name, _ in split.named_children()] == ["part0", "part1", "part2"]
    assert paths == {"a": "part0.a", "p": "part0.p", "b": "part1.b"}
    assert mq.equal(split(x)[0], module(x)[0])
    assert split(x)[1] is module.p


def test_submodules_of_a_split_give_tuples_when_asked():
    split = split_by_tags(tagged(lambda i: "all"), ["all"], return_tuple=True)
    assert isinstance(split.get_submodule("all")(mq.ones(1, 4)), tuple)


@pytest.mark.parametrize("tag_of", [lambda i: "ab"[i % 2], lambda i: "c"])
def test_tags_that_do_not_go_are_refused(tag_of):
    with pytest.raises(AssertionError, match=r"split_by_tags: .*(comes later|not among the tags)"):
        split_by_tags(tagged(tag_of), ["a", "b"])


def split(**settings):
    module = fx.symbolic_trace(Model())
    splitter = _SplitterBase(module, (mq.ones(2, 4),), Modules(), _SplitterSettingBase(**settings))
    return splitter.generate_split_results()


def test_a_module_is_split_by_what_a_backend_supports():
    result = split()
    names = [name for name, _ in result.split_module.named_children()]
    assert names == ["_run_on_acc_0", "_run_on_cpu_1", "_run_on_acc_2", "_run_on_cpu_3"]
    assert [tuple(t.shape) for t in result.submodule_inputs["_run_on_acc_2"]] == [(2, 4)]


def test_submodules_of_a_backend_that_are_too_small_are_the_rest():
    names = [name for name, _ in split(min_acc_module_size=2).split_module.named_children()]
    assert names == ["_run_on_cpu_0"]


def test_a_backend_is_given_a_number_only_when_asked():
    def calls(**settings):
        return [n.target for m in split(**settings).split_module.children() for n in m.graph.nodes
                if m.graph is not None and n.op == "call_method"]  # fmt: skip

    assert calls() == calls(allow_non_tensor=True) == ["size"]
    inputs = split(allow_non_tensor=True).submodule_inputs
    assert any(isinstance(v, int) for given in inputs.values() for v in given)


def test_too_many_submodules_of_a_backend_are_refused():
    with pytest.raises(ValueError, match=r"max_acc_splits limit: expected at most 1 .* got 2"):
        split(max_acc_splits=1)


def test_parts_are_found_by_their_source():
    module = fx.symbolic_trace(Model())
    for node in module.graph.nodes:
        if node.op == "call_module":
            node.meta["source_fn_stack"] = [(node.name, nn.Linear)]
    parts = get_source_partitions(module.graph, [nn.Linear, nn.ReLU])[nn.Linear]
    assert [p.nodes[0].name for p in parts] == ["a", "b"]
    assert not check_subgraphs_connected(parts[0], parts[1])


# --- split_module ----------------------------------------------------------------------


def by_names(places):
    return lambda node: places.get(node.name, 2)


def test_submodules_are_given_the_attributes_that_they_use():
    module = fx.symbolic_trace(Model())
    split = split_module(module, module, lambda node: 0)
    assert "p = self.p" in split.code
    assert [n.target for n in split.submod_0.graph.nodes if n.op == "placeholder"] == ["x", "p"]
    x = mq.ones(2, 4)
    assert mq.equal(split(x)[0], module(x)[0])


@pytest.mark.parametrize("keep, order", [(False, [0, 1, 2]), (True, [1, 0, 2])])
def test_the_submodule_that_may_come_latest_comes_first_unless_order_is_kept(keep, order):
    module = fx.symbolic_trace(lambda x, y: (x + y) * (x - y))
    split = split_module(module, None, by_names({"add": 1, "sub": 0}), keep_original_order=keep)
    assert [name for name, _ in split.named_children()] == [f"submod_{i}" for i in order]
    assert split(mq.tensor(3), mq.tensor(2)) == 5


def test_code_has_no_types_that_only_our_functions_state():
    code = fx.symbolic_trace(nn.Sequential(nn.ReLU())).code
    assert "Any" not in code + fx.make_fx(vmap(lambda x: x * 2))(mq.ones(2)).code
