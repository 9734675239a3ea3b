"""Operators whose result only data tells, in a mode with an environment (spec F69-F80)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
from maquette.fake.exceptions import DataDependentOutputException, DynamicOutputShapeException
from maquette.symbolic import (
    GuardOnDataDependentSymNode,
    ShapeEnv,
    SymBool,
    SymFloat,
    check,
    guard_size_oblivious,
)


@pytest.fixture
def ms() -> mq.FakeTensorMode:
    return mq.FakeTensorMode(shape_env=ShapeEnv())


def bounds(size: Any) -> tuple[float, float]:
    interval = size.node.shape_env.bound_sympy(size.node.expr)
    return interval.lower, interval.upper


def shapes(*tensors: Any) -> list[str]:
    return [str(tuple(t.shape)) for t in tensors]


JAGGED = [mq.tensor([0, 2, 5])]
OF_UNKNOWN_SHAPE = {
    "nonzero": lambda x, i, f: x.nonzero(),
    "argwhere": lambda x, i, f: x.argwhere(),
    "where": lambda x, i, f: mq.where(x > 0),
    "unique": lambda x, i, f: x.unique(),
    "unique_dim": lambda x, i, f: mq.unique(x, dim=0),
    "unique_consecutive": lambda x, i, f: mq.unique_consecutive(x),
    "masked_select": lambda x, i, f: x.masked_select(x > 0),
    "bool mask": lambda x, i, f: x[x > 0],
    "uint8 mask": lambda x, i, f: x[x.to(mq.uint8)],
    "repeat_interleave": lambda x, i, f: x.repeat_interleave(i, 0),
    "bincount": lambda x, i, f: i.bincount(),
    "packed": lambda x, i, f: mq.ops.aten._pack_padded_sequence(x.unsqueeze(2), i, False),
    "jagged": lambda x, i, f: mq.ops.aten._padded_dense_to_jagged_forward(x, list(map(f, JAGGED))),
}


@pytest.mark.parametrize("name", OF_UNKNOWN_SHAPE)
@pytest.mark.parametrize("env", [None, ShapeEnv(allow_dynamic_output_shape_ops=False)])
def test_F69_without_permission_the_shape_cannot_be_told(name: str, env: ShapeEnv | None) -> None:
    f = mq.FakeTensorMode(shape_env=env, static_shapes=True).from_tensor
    with pytest.raises(DynamicOutputShapeException, match="aten"):
        OF_UNKNOWN_SHAPE[name](f(mq.ones(2, 2)), f(mq.tensor([2, 1])), f)


@pytest.mark.parametrize("name", OF_UNKNOWN_SHAPE)
def test_F69_with_an_environment_it_is_a_symbol(name: str, ms: mq.FakeTensorMode) -> None:
    f = lambda t: ms.from_tensor(t, static_shapes=True)  # noqa: E731
    found = OF_UNKNOWN_SHAPE[name](f(mq.ones(2, 2)), f(mq.tensor([2, 1])), f)
    first = found[0] if isinstance(found, tuple) else found
    assert first.shape[0].node.expr.free_symbols


def test_F69_known_shapes_need_no_permission() -> None:
    f = mq.FakeTensorMode().from_tensor
    x, i, mask = f(mq.ones(4, 5)), f(mq.tensor([1, 0])), f(mq.ones(4, 5)) > 0
    assert x[i].shape == (2, 5)
    assert x.nonzero_static(size=3).shape == (3, 2)
    assert x.masked_scatter(mask, x).shape == (4, 5)
    assert x.index_put((mask,), f(mq.tensor(1.0))).shape == (4, 5)
    times = f(mq.tensor([1, 0, 2, 1]))
    assert x.repeat_interleave(times, 0, output_size=4).shape == (4, 5)
    aten = mq.ops.aten
    assert aten._padded_dense_to_jagged_forward(x, [f(mq.arange(5))], 7).shape == (7,)


def test_F70_without_permission_the_value_cannot_be_told() -> None:
    env = ShapeEnv(allow_scalar_outputs=False)
    mode = mq.FakeTensorMode(shape_env=env)
    x = mode.from_tensor(mq.ones(3))
    with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
        x[0].item()
    mode.allow_scalar_outputs = True
    assert type(x[0].item()) is SymFloat


def test_F70_a_question_without_a_number_stays_refused(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(3))
    with pytest.raises(DataDependentOutputException, match="equal"):
        mq.equal(x, x)


def test_F71_items_are_unbacked_numbers(ms: mq.FakeTensorMode) -> None:
    whole = ms.from_tensor(mq.tensor(3, dtype=mq.uint8)).item()
    assert str(whole) == "u0"
    assert bounds(whole) == (float("-inf"), float("inf"))
    assert str(ms.from_tensor(mq.tensor(3.0)).item()) == "zuf0"
    truth = ms.from_tensor(mq.tensor(True)).item()
    assert type(truth) is SymBool
    assert str(truth) == "Eq(u1, 1)"


def test_F71_what_has_no_symbolic_number_is_refused(ms: mq.FakeTensorMode) -> None:
    with pytest.raises(NotImplementedError, match="complex"):
        ms.from_tensor(mq.tensor(3j)).item()
    with pytest.raises(RuntimeError, match="2 elements"):
        ms.from_tensor(mq.ones(2), static_shapes=True).item()


def test_F72_nonzero(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 5), static_shapes=True)
    found = x.nonzero()
    assert shapes(found) == ["(u0, 2)"]
    assert str(found.stride()) == "(1, u0)"
    assert found.dtype is mq.int64
    assert bounds(found.shape[0]) == (0, 20)
    assert not guard_size_oblivious(found.shape[0] == 0)


def test_F72_nonzero_of_nothing_is_nothing(ms: mq.FakeTensorMode) -> None:
    assert shapes(ms.from_tensor(mq.ones(0, 3)).nonzero()) == ["(0, 2)"]


def test_F72_an_unbounded_number_of_elements(ms: mq.FakeTensorMode) -> None:
    assert bounds(ms.from_tensor(mq.ones(4, 5)).nonzero().shape[0]) == (0, 2**63 - 2)


def test_F73_unique(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 5), static_shapes=True)
    assert shapes(*mq.ops.aten._unique2(x)) == ["(u0,)", "(0,)", "(0,)"]
    assert shapes(*mq.ops.aten.unique_dim(x, 0)) == ["(u1, 5)", "(4,)", "(u1,)"]


def test_F74_masked_select_is_bounded_by_the_broadcast(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(3, 1), static_shapes=True)
    mask = ms.from_tensor(mq.ones(3, 4, dtype=mq.bool), static_shapes=True)
    assert bounds(mq.masked_select(x, mask).shape[0]) == (0, 12)


def test_F74_repeats_and_counts(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.tensor([1, 2]), static_shapes=True)
    assert bounds(mq.repeat_interleave(x).shape[0])[0] == 0
    counted = mq.bincount(x, minlength=3)
    assert bounds(counted.shape[0])[0] == 3
    assert counted.dtype is mq.int64
    weights = ms.from_tensor(mq.ones(2), static_shapes=True)
    assert mq.bincount(x, weights).dtype is mq.float32


def test_F75_a_mask_gives_the_same_size_until_it_is_written(ms: mq.FakeTensorMode) -> None:
    x, y = (ms.from_tensor(mq.ones(4), static_shapes=True) for _ in range(2))
    mask = ms.from_tensor(mq.ones(4, dtype=mq.bool), static_shapes=True)
    assert str(x[mask].shape[0]) == str(y[mask].shape[0]) == "u0"
    mask.logical_not_()
    assert str(x[mask].shape[0]) == "u1"
    mask.view(-1).logical_not_()
    assert str(x[mask].shape[0]) == "u2"
    ms.epoch += 1
    assert str(x[mask].shape[0]) == "u3"
    assert str(x[mask.view(-1)].shape[0]) == "u4"


def test_F76_a_float_with_a_hint_survives_epochs(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.tensor(7.5, dtype=mq.float64), source="x")
    first = x.item()
    ms.epoch += 1
    assert x.item() is first
    x.add_(1)
    assert x.item() is not first
    i = ms.from_tensor(mq.tensor(7), source="i")
    whole = i.item()
    ms.epoch += 1
    assert i.item() is not whole


def test_F78_an_unbacked_size_is_not_1(ms: mq.FakeTensorMode) -> None:
    u = ms.from_tensor(mq.tensor([1, 2])).nonzero().shape[0]
    with ms:
        assert shapes(mq.empty(u) + mq.empty(1)) == ["(u0,)"]
        made = mq.empty(u)
        assert shapes(made + mq.empty(4)) == ["(4,)"]
        assert str(u) == "4"


def test_F78_two_unbacked_sizes_are_asserted_equal(ms: mq.FakeTensorMode) -> None:
    env = ms.shape_env
    assert env is not None
    u, v = env.new_size(), env.new_size()
    with ms:
        mq.empty(u) + mq.empty(v)
    asserted = [repr(a) for listed in env.deferred.values() for a in listed]
    assert any("Eq(u0, u1)" in a for a in asserted)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: mq.zeros(n),
        lambda n: mq.empty(2, n),
        lambda n: mq.ones(1).new_empty(n),
        lambda n: mq.full((n,), 1.0),
        lambda n: mq.rand(n),
        lambda n: mq.empty_strided((n,), (1,)),
    ],
)
def test_F78_sizes_given_to_factories_are_not_negative(
    ms: mq.FakeTensorMode, make: Callable[[int], mq.Tensor]
) -> None:
    env = ms.shape_env
    assert env is not None
    u, s = env.create_unbacked_symint(), ms.from_tensor(mq.ones(5), static_shapes=False).shape[0]
    with ms:
        make(u - 3)
        assert str(env.var_to_range[u.node.expr]) == "VR[3, int_oo]"
        make(s - 3)
        assert [g.text for g in env.guards] == ["s0 - 3 >= 0"]
        with pytest.raises(RuntimeError, match="negative dimension s0 - 9"):
            make(s - 9)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, u: x.repeat(u),
        lambda x, u: x.topk(u),
        lambda x, u: x.kthvalue(u),
        lambda x, u: x.clone().copy_(mq.zeros(u)),
    ],
)
def test_F136_conditions_on_unbacked_numbers_are_asserted(
    ms: mq.FakeTensorMode, use: Callable[[mq.Tensor, int], object]
) -> None:
    env = ms.shape_env
    assert env is not None
    u = env.create_unbacked_symint()
    with ms:
        use(mq.ones(6), u)
    assert env.deferred


def test_F79_views_of_unbacked_sizes(ms: mq.FakeTensorMode) -> None:
    assert ms.shape_env is not None
    u = ms.shape_env.new_size()
    with ms:
        assert shapes(mq.empty(u).view(-1, 4)) == ["((u0//4), 4)"]
        assert shapes(mq.empty(10)[u:]) == ["(10 - Min(10, u0),)"]
        minus = mq.empty(10)[-u:]
    assert str(minus.shape[0]).startswith("u")
    assert str(minus.storage_offset()).startswith("u")


def test_F80_branching_on_data_is_an_error(ms: mq.FakeTensorMode) -> None:
    u = ms.from_tensor(mq.tensor([1, 2])).nonzero().shape[0]
    with pytest.raises(GuardOnDataDependentSymNode) as caught:
        bool(u > 3)
    assert str(caught.value.cond) == "u0 > 3"
    check(u > 3)
    assert bool(u > 3)


def test_F10_lists_of_numbers(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(3, dtype=mq.int64), static_shapes=True)
    assert [str(i) for i in x.tolist()] == ["u0", "u1", "u2"]


@pytest.fixture
def dynamic_op() -> Any:
    lib = mq.library.Library("symbolic_sizes", "DEF")
    lib.define("kept(Tensor x, int least, int? most) -> Tensor")

    @mq.library.register_fake("symbolic_sizes::kept", lib=lib)
    def kept(x: Any, least: int, most: int | None) -> Any:
        context = mq.library.get_ctx()
        assert context is not None
        return x.new_empty(context.new_dynamic_size(min=least, max=most))

    yield mq.ops.symbolic_sizes.kept
    lib._destroy()


def test_F93_a_fake_implementation_makes_sizes(ms: mq.FakeTensorMode, dynamic_op: Any) -> None:
    x = ms.from_tensor(mq.ones(3))
    size = dynamic_op(x, 2, 9).shape[0]
    assert str(size) == "u0"
    assert bounds(size) == (2, 9)
    with pytest.raises(RuntimeError, match="no fake implementation runs"):
        mq.library.get_ctx()


@pytest.mark.parametrize("least, most", [(-1, None), (5, 3)])
def test_F93_a_range_must_be_one(
    ms: mq.FakeTensorMode, dynamic_op: Any, least: int, most: int | None
) -> None:
    with pytest.raises(ValueError, match="new_dynamic_size"):
        dynamic_op(ms.from_tensor(mq.ones(3)), least, most)


def test_F93_without_an_environment_there_are_no_sizes(dynamic_op: Any) -> None:
    with pytest.raises(DynamicOutputShapeException, match="kept"):
        dynamic_op(mq.FakeTensorMode().from_tensor(mq.ones(3)), 0, None)
    with pytest.raises(RuntimeError, match="fake tensors"):
        dynamic_op(mq.ones(3, device="meta"), 0, None)


def test_parts_of_sizes_from_data_have_just_those_sizes(ms: mq.FakeTensorMode) -> None:
    """That no size is negative, and that they add up, is asserted when the program runs."""
    with ms:
        sizes = mq.empty(2, dtype=mq.int64).tolist()
        parts = mq.empty(6, 4).split(sizes)
    assert shapes(*parts) == ["(u0, 4)", "(u1, 4)"]
    assert parts[1].storage_offset().node.expr == 4 * sizes[0].node.expr


def test_gradients_of_sizes_from_data_reach_what_they_are_of(ms: mq.FakeTensorMode) -> None:
    with ms:
        x = mq.empty(6, 4, requires_grad=True)
        parts = x.split(mq.empty(2, dtype=mq.int64).tolist())
        (mq.cat(parts) * mq.empty(4, requires_grad=True)).sum().backward()
        assert x.grad is not None
        assert shapes(x.grad) == ["(u0 + u1, 4)"]


def test_a_gradient_of_another_size_is_refused_where_sizes_are_known(ms: mq.FakeTensorMode) -> None:
    class Shorter(mq.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad[:2]

    with ms:
        x = ms.from_tensor(mq.ones(5)).requires_grad_()
        with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
            Shorter.apply(x).sum().backward()


def test_rows_that_data_chose_are_viewed_in_groups_and_back() -> None:
    with mq.FakeTensorMode(shape_env=ShapeEnv()):
        chosen = mq.randn(13, 7, 16)[mq.ones(13, 7) > 0]
        grouped = chosen.view(13, -1, 16)
        assert grouped.view(chosen.shape).shape == chosen.shape
        assert grouped.view(-1, 16).stride() == (16, 1)


def test_gradients_reach_rows_that_data_chose_through_a_view() -> None:
    with mq.FakeTensorMode(shape_env=ShapeEnv()):
        x = mq.randn(13, 7, 16, requires_grad=True)
        x[mq.ones(13, 7) > 0].view(13, -1, 16)[:, -1, :].sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
