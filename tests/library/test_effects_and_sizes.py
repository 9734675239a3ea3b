"""Effects that keep calls, sizes that fakes get, and sizes that they make."""

import threading

import pytest

import maquette as mq
from maquette.fake.exceptions import DynamicOutputShapeException
from maquette.fx import make_fx
from maquette.library import EffectType, custom_op, register_effectful_op
from maquette.symbolic import ShapeEnv


def copying(ns):
    op = custom_op(f"{ns}::f", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(lambda x: x.clone())
    return op


def kept_calls(op):
    """How many calls of ``op`` dead-code removal leaves where nothing uses the results."""
    graph = make_fx(lambda x: (op(x), op(x), x + 1)[2])(mq.ones(2)).graph
    graph.eliminate_dead_code()
    return [n.target for n in graph.nodes].count(op._opoverload)


def test_L36_dead_code_removal_keeps_unused_ordered_calls(ns):
    op = copying(ns)
    handle = register_effectful_op(f"{ns}::f", EffectType.ORDERED)
    assert kept_calls(op) == 2
    handle.destroy()
    assert kept_calls(op) == 0


def test_L36_an_effect_of_none_is_none(ns):
    op = copying(ns)
    handle = register_effectful_op(f"{ns}::f", None)
    assert kept_calls(op) == 0
    handle.destroy()


@pytest.mark.parametrize(
    "kind, size, guards", [("SymInt", "2*s0", []), ("int", "10", ["Eq(2*s0, 10)"])]
)
def test_L82_symint_stays_symbolic_and_int_specialises(ns, kind, size, guards):
    schema = f"(Tensor x, {kind} n) -> Tensor"
    op = custom_op(f"{ns}::f", lambda x, n: x.new_empty(n), mutates_args=(), schema=schema)
    op.register_fake(lambda x, n: x.new_empty(n))
    env = ShapeEnv()
    x = mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(5))
    assert str(op(x, x.shape[0] * 2).shape[0]) == size
    assert [str(g.expr) for g in env.guards] == guards


def sized(ns, make):
    """A call, on a fake of a mode with ``env``, of an operator whose fake makes its size so."""
    schema = "(Tensor x) -> Tensor"
    op = custom_op(f"{ns}::f", lambda x: x.clone(), mutates_args=(), schema=schema)
    op.register_fake(lambda x: x.new_empty(make(mq.library.get_ctx(), x)))
    return lambda env: op(mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(5))).shape[0]


def test_L84_a_size_is_fresh_and_unbacked(ns):
    call, env = sized(ns, lambda ctx, x: ctx.new_dynamic_size(min=3, max=7)), ShapeEnv()
    first, second = call(env), call(env)
    assert (str(first), str(second)) == ("u0", "u1")
    bounds = env.var_to_range[first.node.expr]
    assert (int(bounds.lower), int(bounds.upper)) == (3, 7)


@pytest.mark.parametrize("forbids", [False, True])
def test_L84_no_environment_or_a_forbidding_one_raises(ns, forbids):
    call = sized(ns, lambda ctx, x: ctx.new_dynamic_size())
    env = ShapeEnv(allow_dynamic_output_shape_ops=False) if forbids else None
    with pytest.raises(DynamicOutputShapeException, match=f"{ns}.f"):
        call(env)


def test_L84_a_symbolic_bound_is_a_value_error(ns):
    call = sized(ns, lambda ctx, x: ctx.new_dynamic_size(max=x.shape[0]))
    with pytest.raises(ValueError, match="plain ints"):
        call(ShapeEnv())


@pytest.mark.parametrize("bounds", [{"min": -1}, {"min": 5, "max": 3}])
def test_L84_a_range_that_is_none_is_a_value_error(ns, bounds):
    call = sized(ns, lambda ctx, x: ctx.new_dynamic_size(**bounds))
    with pytest.raises(ValueError, match="new_dynamic_size"):
        call(ShapeEnv())


def test_L84_a_bound_that_is_no_int_is_a_type_error(ns):
    call = sized(ns, lambda ctx, x: ctx.new_dynamic_size(min=1.5))
    with pytest.raises(TypeError, match="new_dynamic_size"):
        call(ShapeEnv())


def test_L84_the_old_name_starts_at_two_and_warns(ns):
    call, env = sized(ns, lambda ctx, x: ctx.create_unbacked_symint()), ShapeEnv()
    with pytest.warns(FutureWarning, match="new_dynamic_size"):
        size = call(env)
    assert int(env.var_to_range[size.node.expr].lower) == 2


# --- L83: the context of a fake -----------------------------------------------------------------


def fake_calling(ns, name, function):
    schema = "(Tensor x) -> Tensor"
    op = custom_op(f"{ns}::{name}", lambda x: x.clone(), mutates_args=(), schema=schema)
    op.register_fake(function)
    return op


def test_L83_one_context_per_call_restored_after_nested_ones(ns):
    get_ctx, seen = mq.library.get_ctx, []
    inner = fake_calling(ns, "inner", lambda x: (seen.append(get_ctx()), x.clone())[1])

    def outer(x):
        before = get_ctx()
        result = inner(x)
        seen.append((before, get_ctx()))
        return result

    op = fake_calling(ns, "outer", outer)
    x = mq.FakeTensorMode(shape_env=ShapeEnv()).from_tensor(mq.ones(2))
    op(x)
    within, (before, after) = seen
    assert before is after
    assert within is not before
    seen.clear()
    op(x)
    assert seen[1][0] is not before


def test_L83_outside_of_a_fake_there_is_none():
    with pytest.raises(RuntimeError, match="no fake implementation runs in this thread"):
        mq.library.get_ctx()


def test_L83_a_context_is_of_its_thread(ns):
    found = []

    def ask():
        try:
            mq.library.get_ctx()
        except RuntimeError as error:
            found.append(str(error))

    def fake(x):
        worker = threading.Thread(target=ask)
        worker.start()
        worker.join()
        return x.clone()

    fake_calling(ns, "f", fake)(mq.FakeTensorMode(shape_env=ShapeEnv()).from_tensor(mq.ones(2)))
    assert "no fake implementation runs in this thread" in found[0]


def test_L83_a_stashed_context_is_over_with_its_call(ns):
    kept = []
    op = fake_calling(ns, "f", lambda x: (kept.append(mq.library.get_ctx()), x.clone())[1])
    op(mq.FakeTensorMode(shape_env=ShapeEnv()).from_tensor(mq.ones(2)))
    with pytest.raises(RuntimeError, match=r"the call of the fake .* is over"):
        kept[0].new_dynamic_size()


def test_L83_under_meta_it_raises_naming_operator_and_place(ns):
    op = fake_calling(ns, "f", lambda x: x.new_empty(mq.library.get_ctx().new_dynamic_size()))
    with pytest.raises(RuntimeError, match=rf"{ns}::f .*test_effects_and_sizes\.py:\d+"):
        op(mq.ones(2, device="meta"))


def test_L36_impure_is_what_writes_has_an_effect_or_draws(ns):
    is_impure = mq.library.is_impure
    aten = mq.ops.aten
    assert [is_impure(o) for o in (aten.add.Tensor, aten.add_.Tensor, aten.bernoulli.default)] == [
        False, True, True,
    ]  # fmt: skip
    op = copying(ns)
    assert not is_impure(op._opoverload)
    op.register_effect(EffectType.ORDERED)
    assert is_impure(op._opoverload)
