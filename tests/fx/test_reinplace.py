"""`reinplace`: functionalized graphs that mutate their own memory again, and nobody else's."""

import warnings

import pytest
from functional_programs import function_of, inputs_of, make, numbers, same, without_data_dependence

import maquette as mq
import maquette.torch as torch
from maquette.fx.passes.fake_tensor_prop import FakeTensorProp
from maquette.fx.passes.reinplace import reinplace
from maquette.fx.tracing.proxy_tensor import make_fx
from maquette.torch.multiprocessing import reductions
from maquette.transforms import functionalize


def reinplaced(f, *inputs):
    """The operators of ``f``, traced and made in place."""
    graph = reinplace(make_fx(f)(*inputs), *inputs).graph
    return [str(n.target).removeprefix("aten.") for n in graph.nodes if n.op == "call_function"]


def test_a_value_that_nobody_reads_again_is_mutated():
    assert reinplaced(lambda x: x.clone().add(1), mq.ones(2)) == ["clone.default", "add_.Tensor"]


def test_inputs_are_left_alone():
    assert reinplaced(lambda x: x.view(4).add(1), mq.ones(2, 2)) == ["view.default", "add.Tensor"]


def test_a_value_that_is_read_through_a_view_is_left_alone():
    def f(x):
        a = x.clone()
        return a.add(1) * a.view(-1)

    assert "add.Tensor" in reinplaced(f, mq.ones(2))


def test_another_dtype_or_other_strides_are_left_alone():
    assert "ge.Scalar" in reinplaced(lambda x: x.clone().ge(0), mq.ones(2))
    assert "add.Tensor" in reinplaced(
        lambda x: x.clone().diagonal().add(1).view(2, 1), mq.ones(2, 2)
    )


def test_a_scatter_of_what_lies_there_already_falls_away():
    def f(x):
        y = x.clone()
        y.diagonal().add_(1)
        return y

    found = reinplaced(functionalize(f), mq.ones(2, 2))
    assert found[:3] == ["clone.default", "diagonal.default", "add_.Tensor"]
    assert not any("scatter" in name for name in found)


def check(seeds):
    """Programs do the same, values of inputs included, when their graphs are made in place."""
    changed = 0
    for seed in seeds:
        program = without_data_dependence(make(seed))
        traced_in, plain_in, inputs = (inputs_of(program) for _ in range(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = function_of(program, {})(*plain_in)
            traced = make_fx(functionalize(function_of(program, {})))(*traced_in)
            traced.graph.eliminate_dead_code()  # calls that were refused are in it
            module = reinplace(traced, *inputs_of(program))
            names = [str(n.target) for n in module.graph.nodes]
            changed += any("_." in name and "copy_" not in name for name in names)
            out = module(*inputs)
        assert all(same(numbers(a), numbers(b)) for a, b in zip(plain, out, strict=True)), seed
        for a, b in zip(plain_in, inputs, strict=True):
            assert a.meta is not b.meta or same(numbers(a), numbers(b)), seed
    return changed


def test_random_programs_do_the_same_in_place():
    assert check(range(40)) > 2


@pytest.mark.verify
def test_many_random_programs_do_the_same_in_place():
    check(range(40, 1500))


def test_fake_tensor_prop_notes_what_each_node_gives():
    traced = make_fx(lambda x: (x @ x).sum(0))(mq.ones(3, 3))
    out = FakeTensorProp(traced).propagate(mq.ones(3, 3))
    shapes = [tuple(n.meta["val"].shape) for n in traced.graph.nodes if n.op == "call_function"]
    assert shapes == [(3, 3), (3,)]
    assert isinstance(out, mq.FakeTensor)


def test_weak_references_to_storages_tell_what_shares_memory():
    x = torch.ones(2, 2)
    ref = reductions.StorageWeakRef(x.untyped_storage())
    assert ref == reductions.StorageWeakRef(x.view(4).untyped_storage())
    assert ref != reductions.StorageWeakRef(torch.ones(4).untyped_storage())
    del x
    assert ref.expired()


def resized(f, *inputs):
    """The operators of ``f``, functionalized, traced and made in place; its results stay."""
    traced = make_fx(functionalize(f, remove="mutations"))(*inputs)
    expected = traced(*inputs)
    graph = reinplace(traced, *inputs)
    assert mq.equal(graph(*inputs), expected)
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]


def test_a_value_that_nobody_looks_at_is_resized_in_place():
    def f(x):
        y = x + 1
        y.resize_(5, 5)
        y.view(25).fill_(1)
        return y + 1

    assert "aten.resize_.default" in resized(f, mq.ones(8, 2))


def test_a_value_that_others_look_at_is_resized_elsewhere():
    def f(x):
        y = x.clone()
        z = mq.ops.aten.resize.default(y, [2, 2])
        return z + y[0] * y.sum()

    assert "aten.resize.default" in resized(f, mq.ones(8, 2))
