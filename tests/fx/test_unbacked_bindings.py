"""Nodes of a trace say where their results show the symbols that data decides."""

import pytest

import maquette as mq
from maquette.fx import make_fx
from maquette.fx.passes.fake_tensor_prop import FakeTensorProp
from maquette.symbolic import ShapeEnv, statically_known_true

X = mq.tensor([1.0, 0.0, 2.0])


def whole(x):
    return x.to(mq.int64).sum().item()


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize(
    "program, name, path",
    [
        (lambda x: x.nonzero(), "nonzero", ".size()[0]"),
        (lambda x: mq.zeros(whole(x)), "_local_scalar_dense", ""),
        (lambda x: x[x > 0], "index", ".size()[0]"),
        (lambda x: mq.unique(x), "_unique2", "[0].size()[0]"),
    ],
)
def test_the_path_to_a_symbol_stands_in_the_node_that_made_it(program, name, path, mode):
    traced = make_fx(program, tracing_mode=mode)(X)
    bound = {n.name: n.meta.get("unbacked_bindings") for n in traced.graph.nodes}
    ((_, keys),) = bound.pop(name).items()
    assert not any(bound.values())
    assert "".join(map(str, keys)).replace(".size[0]", ".size()[0]") == path


def test_symbols_of_a_graph_that_is_run_again_are_those_of_its_trace():
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        x = mq.rand(5)
        traced = make_fx(lambda x: x.nonzero())(x)
    (node,) = [n for n in traced.graph.nodes if n.name == "nonzero"]
    before = node.meta["val"].shape[0]
    FakeTensorProp(traced, mode).propagate(x)
    assert statically_known_true(before == node.meta["val"].shape[0])
