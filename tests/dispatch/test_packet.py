"""`OpOverloadPacket`: names, binding, and the choice of an overload (D83-D88)."""

import copy
import pickle

import pytest

import maquette as mq
from maquette.core import remembered
from maquette.dispatch import OpOverloadPacket
from maquette.library import Library

aten = mq.ops.aten


def which(name):
    return lambda *args, **kwargs: name


@pytest.fixture
def packet(define, ns):
    """A packet with overloads of many kinds, each answering with its name."""
    schemas = [
        "many.int(Tensor x, int n) -> str",
        "many.ints(Tensor x, int[] ns) -> str",
        "many.tensors(Tensor x, Tensor[] ts) -> str",
        "many.float(Tensor x, float p) -> str",
        "many.Tensor(Tensor x, Tensor y) -> str",
        "many.word(Tensor x, *, str word) -> str",
        "many(Tensor x) -> str",
    ]
    for schema in schemas:
        name = schema.partition("(")[0].partition(".")[2] or "default"
        define(schema, CompositeExplicitAutograd=which(name))
    return getattr(mq.ops, ns).many


# --- names and identity ----------------------------------------------------------------------


def test_D83_the_names_of_a_packet():
    packet = aten.add
    assert str(packet) == "aten.add"
    assert repr(packet) == "<OpOverloadPacket(op='aten.add')>"
    assert (packet.__name__, packet._qualified_op_name) == ("add", "aten::add")
    assert packet.__file__ == "maquette.ops"
    assert packet._schemas["Tensor"] is packet.Tensor._schema
    assert aten.mm._schemas[""] is aten.mm.default._schema


def test_D83_the_underlying_callable(x):
    assert aten.add.op(x, x).shape == (2, 3)


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        lambda packet: pickle.loads(pickle.dumps(packet)),
    ],
)
def test_D83_there_is_one_object(again):
    assert again(aten.add) is aten.add
    assert hash(again(aten.add)) == hash(aten.add)


def test_D84_an_overload_is_bound_once(packet):
    assert list(packet) == []
    assert packet.default is packet.default
    assert packet.ints is packet._overloads["ints"]
    assert list(packet) == ["default", "ints"]


def test_D84_overloads_are_listed_in_order_of_registration(packet):
    assert packet.overloads()[0] == "int"
    assert packet.overloads()[-1] == "default"
    assert packet.op_overloads()[-1] is packet.default
    assert aten.add.overloads()[0] == "Tensor"


def test_D85_unknown_overloads_are_attribute_errors():
    assert not hasattr(aten.add, "nope")
    with pytest.raises(AttributeError, match=r"aten\.add.*'nope'"):
        _ = aten.add.nope


def test_D85_dunders_are_never_overloads():
    with pytest.raises(AttributeError, match=r"aten\.add.*'__nope__'.*'__'"):
        _ = aten.add.__nope__
    assert aten.add.__code__ is OpOverloadPacket.__call__.__code__


# --- choosing --------------------------------------------------------------------------------


def test_D86_the_first_overload_that_fits(x):
    assert aten.add(x, 1).shape == (2, 3)
    assert aten.sum(x, [0]).shape == (3,)
    assert aten.sum(x).shape == ()
    assert aten.sum(x, dim=[1]).shape == (2,)


def test_D86_choices_do_not_depend_on_earlier_ones(packet, x):
    one, more = mq.tensor(1), mq.ones(3)
    calls = [
        ((x, 2), "int"),
        ((x, True), "int"),
        ((x, 2.5), "float"),
        ((x, one), "int"),
        ((x, more), "Tensor"),
        ((x, mq.tensor([1, 2])), "ints"),
        ((x, [1]), "ints"),
        ((x, [more]), "tensors"),
        ((x, []), "ints"),
        ((x,), "default"),
        ((x, (more, more)), "tensors"),
        ((x, mq.Size((1,))), "ints"),
    ]
    for repeated in range(3):
        for args, name in (calls, calls[::-1])[repeated % 2]:
            assert packet(*args) == name
    assert packet(x, word="w") == "word"
    assert packet(x=x, n=1) == "int"


def test_D86_a_remembered_choice_that_does_not_fit_is_made_again(packet, x):
    for value, name in (((1, 2), "ints"), ((1.5,), None), ((1, 2), "ints"), ((x, x), "tensors")):
        if name is None:
            with pytest.raises(RuntimeError, match="no overload matched"):
                packet(x, value)
        else:
            assert packet(x, value) == name


def test_D86_errors_from_further_in_are_not_taken_for_a_bad_choice(define, ns, x):
    calls = []

    def kernel(x):
        calls.append(x)
        return aten.mm.default(x)

    define("f(Tensor x) -> Tensor", CPU=kernel)
    define("f.other(Tensor x, int n) -> Tensor", CPU=kernel)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="aten::mm"):
            getattr(mq.ops, ns).f(x)
    assert len(calls) == 2


def test_D87_no_match_lists_every_overload(x):
    with pytest.raises(RuntimeError) as caught:
        aten.mm(x)
    text = str(caught.value)
    assert "no overload matched" in text
    for name in aten.mm.overloads():
        assert f"aten.mm.{name}: " in text
    assert text.count("missing a value for argument 'mat2'") == len(aten.mm.overloads())


# --- coming and going ------------------------------------------------------------------------


def test_D88_a_later_overload_appears_on_the_same_packet(lib, ns, define, x):
    define("k.a(Tensor x) -> str", CPU=which("a"))
    packet = getattr(mq.ops, ns).k
    assert packet(x) == "a"
    define("k.b(Tensor x, int n) -> str", CPU=which("b"))
    assert getattr(mq.ops, ns).k is packet
    assert packet.b(x, 1) == packet(x, 1) == "b"


def test_D88_a_destroyed_library_takes_its_overloads_along(lib, ns, x):
    other = Library(ns, "FRAGMENT")
    lib.define("k.a(Tensor x) -> Tensor")
    other.define("k.b(Tensor x) -> Tensor")
    packet = getattr(mq.ops, ns).k
    stale = packet.b
    other._destroy()
    assert packet.overloads() == ["a"]
    assert not hasattr(packet, "b")
    with pytest.raises(RuntimeError, match=rf"{ns}::k.b"):
        stale(x)


def test_D88_the_last_overload_takes_the_packet_along(ns, x):
    library = Library(ns, "FRAGMENT")
    library.define("k(Tensor x) -> Tensor")
    packet = getattr(mq.ops, ns).k
    library._destroy()
    with pytest.raises(AttributeError, match=f"{ns}.*'k'|'k'.*{ns}"):
        _ = getattr(mq.ops, ns).k
    with pytest.raises(RuntimeError, match=f"{ns}::k"):
        packet(x)


def test_D88_a_stale_overload_that_was_called_before_says_so_too(ns, x):
    library = Library(ns, "FRAGMENT")
    library.define("k(Tensor x) -> Tensor")
    library.impl("k", lambda x: x.clone(), "CPU")
    op = getattr(mq.ops, ns).k.default
    assert op(x).shape == (2, 3)
    library._destroy()
    for call in (op, op._call, op._handle.schema and op.call_slow):
        with pytest.raises(RuntimeError, match=f"{ns}::k"):
            call((x,), {}) if call == op.call_slow else call(x)


def test_D88_an_overload_that_goes_while_it_is_chosen_says_so(ns, x, monkeypatch):
    lib = Library(ns, "FRAGMENT")
    lib.define("goes(Tensor x) -> Tensor")
    packet, match = getattr(mq.ops, ns).goes, OpOverloadPacket._match

    def matched_then_gone(self, args, kwargs):
        found = match(self, args, kwargs)
        lib._destroy()
        return found

    monkeypatch.setattr(OpOverloadPacket, "_match", matched_then_gone)
    with pytest.raises(RuntimeError, match=f"{ns}.*goes"):
        packet(x)


def test_D140_remembered_choices_are_bounded(packet, x, monkeypatch):
    monkeypatch.setattr(remembered, "LIMIT", 64)
    for i in range(200):
        kind = type(f"Int{i}", (int,), {})
        assert packet(x, kind(1)) == "int"
    assert len(packet.by_class) + len(packet._by_value) <= 64
