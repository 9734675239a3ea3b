"""Effects and tokens (D132-D134)."""

import pytest

import maquette as mq
from maquette.fx.tracing.proxy_tensor import make_fx
from maquette.higher_order.effects import with_effects
from maquette.library.effects import EffectType, get_effect, register_effectful_op
from maquette.torch._subclasses.functional_tensor import (
    FunctionalTensorMode,
    PythonFunctionalizeAPI,
    dispatch_functionalize,
)

aten = mq.ops.aten


@pytest.fixture
def noisy():
    """An operator without results that matters for its effect only."""
    with mq.library._scoped_library("effects_test", "DEF") as lib:
        lib.define("say(Tensor x) -> ()")
        lib.define("two(Tensor x) -> (Tensor, Tensor)")
        lib.define("many(Tensor x) -> Tensor[]")
        lib.impl("say", lambda x: None, "CompositeExplicitAutograd")
        lib.impl("two", lambda x: (x + 1, x + 2), "CompositeExplicitAutograd")
        lib.impl("many", lambda x: [x + 1, x + 2], "CompositeExplicitAutograd")
        lib.impl("say", lambda x: None, "Meta")
        ops = mq.ops.effects_test
        handle = register_effectful_op(ops.say.default, EffectType.ORDERED)
        yield ops
        handle.destroy()


def test_D132_an_effect_is_registered_and_withdrawn(noisy):
    assert get_effect("effects_test::two") is None
    handle = register_effectful_op("effects_test::two", EffectType.ORDERED)
    assert get_effect(noisy.two.default) is EffectType.ORDERED
    handle.destroy()
    assert get_effect(noisy.two.default) is None


def test_D132_bad_names_are_refused_and_unknown_ones_have_none():
    with pytest.raises(ValueError, match="namespace::name"):
        get_effect("not a name")
    assert get_effect("effects_test::nowhere") is None


def test_D133_results_come_after_the_token(noisy):
    token, x = mq.empty(0), mq.ones(2)
    assert len(with_effects(token, noisy.two.default, x)) == 3
    assert len(with_effects(token, noisy.many.default, x)) == 2
    assert with_effects(token, noisy.say.default, x)[1] is None
    assert with_effects(token, noisy.say.default, x)[0].shape == (0,)


def test_D133_what_is_no_operator_or_aliases_is_refused():
    token, x = mq.empty(0), mq.ones(2)
    with pytest.raises(AssertionError, match="builtin_function_or_method"):
        with_effects(token, len, x)
    with pytest.raises(AssertionError, match="aliases"):
        with_effects(token, aten.add_.Tensor, x, x)


def twice(noisy):
    def f(x):
        noisy.say(x)
        noisy.say(x + 1)
        return x * 2

    return f


def test_D134_tokens_are_made_only_while_they_are_discovered(noisy):
    with pytest.raises(AssertionError, match=r"EffectType.ORDERED.*effects_test.say"):
        dispatch_functionalize(twice(noisy))(mq.ones(2))


def test_D134_the_second_call_takes_the_token_of_the_first(noisy):
    mode = FunctionalTensorMode(_allow_token_discovery=True)
    graph = make_fx(dispatch_functionalize(twice(noisy), mode))(mq.ones(2)).graph
    calls = [n for n in graph.nodes if n.target is with_effects]
    assert len(calls) == 2
    token = calls[1].args[0]
    assert (token.args[0], token.args[1]) == (calls[0], 0)


def test_D134_dead_code_elimination_keeps_the_calls(noisy):
    def f(x):
        mode._tokens.clear()
        result = PythonFunctionalizeAPI(mode).functionalize(twice(noisy))(x)
        return [t.from_functional() for t in mode._tokens.values()], result

    mode = FunctionalTensorMode(_allow_token_discovery=True)
    traced = make_fx(f)(mq.ones(2))
    traced.graph.eliminate_dead_code()
    assert [n.target for n in traced.graph.nodes].count(with_effects) == 2
