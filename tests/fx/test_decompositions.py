"""Decompositions: the core table against the kernels, and in `make_fx`."""

import pytest

import check_decompositions
import maquette as mq
from maquette import fx
from maquette.fx.decompositions import (
    core_aten_decompositions,
    decomposition_table,
    get_decompositions,
    register_decomposition,
    remove_decompositions,
)

aten = mq.ops.aten


def names(module):
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def test_decompositions_equal_the_kernels():
    _, compared, failures = check_decompositions.run(["aten.s*", "aten.n*"], 1000)
    assert [(name, reason) for name, reason, _ in failures] == []
    assert len(compared) > 50


def test_decompositions_of_decompositions_come_to_an_end():
    """`rsub` called itself, and with it whatever takes a tensor from a number."""
    patterns = ["aten.rsub*", "aten.si*", "aten.lerp*", "aten.reflection*", "aten.mm*"]
    assert check_decompositions.recursions(patterns, 5) == []


@pytest.mark.verify
def test_decompositions_equal_the_kernels_over_all_recordings():
    total, compared, failures = check_decompositions.run([], 1)
    print(dict(total), len(compared))
    assert [(name, reason) for name, reason, _ in failures] == []


def test_the_core_table_leaves_core_operators_alone():
    table = core_aten_decompositions()
    assert aten.silu.default in table
    assert aten.silu_.default in table
    assert aten.linear.default in table  # defined by others on its page
    for core in (aten.mm.default, aten.gelu.default, aten.native_layer_norm.default):
        assert core not in table
    table.clear()
    assert core_aten_decompositions()


def test_programs_are_traced_into_what_the_table_leaves():
    def program(x):
        return mq.nn.functional.silu(x).addcmul(x, x).std()

    x = mq.randn(4, 4)
    traced = fx.make_fx(program, core_aten_decompositions())(x)
    assert names(traced) == [
        "aten.sigmoid.default", "aten.mul.Tensor", "aten.mul.Tensor", "aten.mul.Tensor",
        "aten.add.Tensor", "aten.var.correction", "aten.sqrt.default",
    ]  # fmt: skip
    assert mq.allclose(traced(x), program(x))


def test_before_dispatch_a_composite_operator_is_taken_apart_only_by_a_table():
    layer = mq.nn.Linear(3, 3)
    x = mq.ones(2, 3)
    kept = fx.make_fx(layer.forward, pre_dispatch=True)(x)
    assert "aten.linear.default" in names(kept)
    table = get_decompositions([aten.linear])
    taken = fx.make_fx(layer.forward, table, pre_dispatch=True)(x)
    assert "aten.linear.default" not in names(taken)
    assert mq.allclose(kept(x), taken(x))


def test_chosen_decompositions_reach_core_operators_too():
    table = get_decompositions([aten.native_layer_norm, aten._softmax.default])
    x = mq.randn(2, 5)
    traced = fx.make_fx(lambda x: mq.layer_norm(x, [5]).softmax(1), table)(x)
    assert not any("norm" in n or "_softmax" in n for n in names(traced))
    assert mq.allclose(traced(x), mq.layer_norm(x, [5]).softmax(1), atol=1e-6)


def test_a_program_has_its_own_rules():
    mine = {}

    @register_decomposition(aten.relu.default, mine)
    def relu(x):
        return x.clamp(min=0)

    assert names(fx.make_fx(mq.relu, mine)(mq.ones(2))) == ["aten.clamp.default"]
    assert aten.relu.default not in decomposition_table
    remove_decompositions(mine, [aten.relu])
    assert not mine


NAN = float("nan")
BORDERS = mq.tensor([NAN, -3.0, 3.0, 0.5, -0.5, float("inf"), 1.0])
ONES, WHOLE = mq.ones(7), mq.tensor([-1, -2, 3])
OF_SPECIAL_VALUES = {
    "hardtanh_backward": (ONES, BORDERS, -0.5, 0.5),
    "hardswish_backward": (ONES, BORDERS),
    "smooth_l1_loss_backward": (ONES, BORDERS, mq.zeros(7), 0, 1.0),
    "addcmul": (WHOLE, WHOLE, WHOLE),
    "threshold": (WHOLE, -1.8, -4.3),
    "threshold_backward": (WHOLE, WHOLE, -1.8),
}


@pytest.mark.parametrize("name", OF_SPECIAL_VALUES)
def test_decompositions_are_the_kernels_at_borders_nan_and_whole_numbers(name: str) -> None:
    op, args = getattr(mq.ops.aten, name).default, OF_SPECIAL_VALUES[name]
    named = {"value": 3.9} if name == "addcmul" else {}
    wanted = op(*args, **named)
    found = decomposition_table[op](*args, **named)
    assert found.dtype is wanted.dtype
    assert mq.equal(found.nan_to_num(nan=77), wanted.nan_to_num(nan=77))


def test_a_threshold_among_whole_numbers_is_one() -> None:
    backward = mq.ops.aten.threshold_backward.default
    assert backward(WHOLE, WHOLE, -1.8).tolist() == [0, 0, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda aten, i: aten.log_sigmoid_backward(i, i, i),
        lambda aten, i: aten._log_softmax_backward_data(i, i, 0, mq.float32),
        lambda aten, i: aten._softmax_backward_data(i, i, 0, mq.float32),
        lambda aten, i: aten.soft_margin_loss_backward(i, i, i, 0),
    ],
)
def test_gradients_of_functions_of_floats_take_no_whole_numbers(call) -> None:
    with pytest.raises((NotImplementedError, RuntimeError), match=r"not implemented|can't be cast"):
        call(mq.ops.aten, WHOLE)
