"""`SymNode`s as programs make and compute with them, and the tables of their operations."""

import operator

import pytest

import maquette.torch as torch
from maquette.symbolic import ShapeEnv, SymBool, SymFloat, SymInt, SymNode
from maquette.symbolic.program.sources import ConstantSource, EphemeralSource
from maquette.torch.tracing import sym_node


def size(env: ShapeEnv, value: int, name: str = "n") -> SymInt:
    symbol = env.create_symbol(value, source=ConstantSource(name))
    return SymInt(SymNode(symbol, env, int, hint=value))


def test_F113_a_node_is_made_of_a_sympy_symbol() -> None:
    n = size(ShapeEnv(), 7)
    assert (str(n), n.node.hint, str(n + 1)) == ("s0", 7, "s0 + 1")


def test_F113_nodes_of_one_expression_are_one() -> None:
    env = ShapeEnv()
    n = size(env, 7)
    assert SymNode(n.node.expr, env, int) is n.node


def test_F113_a_node_of_a_constant_is_that_constant() -> None:
    node = SymNode(1, ShapeEnv(), bool, hint=True)
    assert SymBool(node).node.maybe_as_bool() is True
    assert SymFloat(SymNode(2.5, ShapeEnv(), float)).node.maybe_as_float() == 2.5


def test_F113_a_hint_that_contradicts_is_refused() -> None:
    env = ShapeEnv()
    symbol = env.create_symbol(7, source=ConstantSource("n"))
    with pytest.raises(AssertionError, match="hint 8 of s0, which is 7"):
        SymNode(symbol, env, int, hint=8)


@pytest.mark.parametrize(
    ("name", "text"),
    [("add", "s0 + 2"), ("mul", "2*s0"), ("int_floordiv", "(s0//2)"), ("lt", "s0 < 2"),
     ("sym_max", "Max(2, s0)"), ("bitwise_and", "BitwiseFn_bitwise_and(2, s0)")],
)  # fmt: skip
def test_F115_a_method_of_nodes_computes_as_its_operator(name: str, text: str) -> None:
    n = size(ShapeEnv(), 7).node
    result = getattr(n, name)(sym_node.to_node(n, 2))
    by_operator = sym_node.METHOD_TO_OPERATOR[name](n.number, 2)
    assert result is by_operator.node
    assert sorted(str(result)) == sorted(text)


def test_F115_a_condition_chooses_between_nodes() -> None:
    env = ShapeEnv(duck_shape=False)
    n, m = size(env, 7), size(env, 9, "m")
    chosen = (n > 3).node.sym_ite(n.node, m.node)
    assert chosen.hint == 7
    assert not env.guards


@pytest.mark.parametrize("name", sorted(sym_node.unary_methods - {"sym_int", "sym_not"}))
def test_F115_every_unary_operation_has_its_function(name: str) -> None:
    function = sym_node.method_to_operator(name)
    value = 1.0 if name in sym_node.only_float_magic_methods else 0.5
    assert function(value) is not None


def test_F115_trigonometric_functions_guard_nothing() -> None:
    env = ShapeEnv()
    assert str(torch._sym_sin(size(env, 7))) == "OpaqueUnaryFn_sin(ToFloat(s0))"
    assert not env.guards


def test_F116_a_remainder_of_multiples_is_a_constant() -> None:
    n = size(ShapeEnv(), 7)
    assert [str((2 * n + 1) % 2), str((-4 * n + 7) % 4), str((6 * n + 4) % 4)] == [
        "1", "3", "Mod(6*s0 + 4, 4)",
    ]  # fmt: skip


def test_F121_a_guard_unpacks_as_a_tuple() -> None:
    env = ShapeEnv()
    assert int(size(env, 7)) == 7
    expr, sloc, oblivious = env.guards[0]
    assert (str(expr), env.guards[0][2], len(env.guards[0])) == ("Eq(s0, 7)", oblivious, 3)
    assert sloc is env.guards[0].sloc


@pytest.mark.parametrize("swapped", [False, True])
def test_F122_a_symbol_that_guards_cannot_name_gives_way(swapped: bool) -> None:
    env = ShapeEnv(duck_shape=False)
    sources = [ConstantSource("x"), EphemeralSource()]
    made = [
        env.create_symintnode(env.create_symbol(7, source=source), hint=7)
        for source in (sources[::-1] if swapped else sources)
    ]
    assert operator.eq(*made)
    assert [str(s) for s in env.replacements] == [str(made[0 if swapped else 1].node._expr)]


def test_F113_places_of_symbols_are_told_for_sympy() -> None:
    env = ShapeEnv()
    n = size(env, 7, "x.size()[0]")
    assert [s.name for s in env.var_to_sources[n.node.expr]] == ["x.size()[0]"]
    assert env.source_to_var["x.size()[0]"] is n.node.expr


def test_F113_a_symbol_is_named_by_a_place_that_guards_can_reach() -> None:
    env = ShapeEnv()
    for source in (EphemeralSource(), ConstantSource("x")):
        symbol = env.create_symbol(7, source=source)
    assert env.var_to_sources[symbol][0].name == "x"
