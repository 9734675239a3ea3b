"""Opaque types: classes that operators take, and that traces do not look into (L106, L107)."""

import enum
from typing import Optional

import pytest

import maquette as mq
from maquette.core.pytree import deregister_pytree_node, register_pytree_node
from maquette.fx import make_fx
from maquette.library import MemberType, custom_op, infer_schema, register_opaque_type
from maquette.library.objects.opaque_types import OpaqueBase, get_opaque_type_name, is_opaque_type
from maquette.library.objects.script_objects import register_class, register_fake_class

Tensor = mq.Tensor


class Queue(OpaqueBase):
    """A reference."""

    def __init__(self):
        self.n = 3
        self.kind = "fifo"


class Sub(Queue):
    pass


class Scale:
    """A value."""

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return hash(self.n)

    def __fx_repr__(self):
        return f"Scale({self.n})", {"Scale": Scale}


class Mode(enum.Enum):
    DOUBLE = 2


register_opaque_type(Queue, typ="reference", members={"kind": MemberType.USE_REAL})
register_opaque_type(Scale, typ="value")
NAME = f"{__name__}.Queue"


def times(q: Queue, x: Tensor) -> Tensor:
    return x * q.n


@pytest.fixture
def reading(ns):
    """An operator whose fake reads an attribute that ``reading.name`` says."""
    op = custom_op(f"{ns}::times", times, mutates_args=())
    seen = []

    def fake(q, x):
        seen.append((isinstance(q, Queue), getattr(q, op.name)))
        return mq.empty_like(x)

    op.register_fake(fake)
    op.seen = seen
    return op


def test_L106_a_class_and_its_subclasses_are_a_schema_type():
    assert infer_schema(times, mutates_args=()) == f"({NAME} q, Tensor x) -> Tensor"
    assert get_opaque_type_name(Sub) == NAME
    assert is_opaque_type(NAME)
    assert not is_opaque_type(int)


def test_L106_operators_take_objects_of_it_and_no_others(ns):
    op = custom_op(f"{ns}::times", times, mutates_args=())
    assert op(Queue(), mq.ones(1)).tolist() == [3]
    assert op(Sub(), mq.ones(1)).tolist() == [3]
    with pytest.raises(RuntimeError, match=r"q.*Queue"):
        op(object(), mq.ones(1))


def test_L106_a_reference_may_be_returned_a_value_not(ns):
    def made(x: Tensor) -> Queue:
        return Queue()

    def scaled(x: Tensor) -> Scale:
        return Scale(1)

    op = custom_op(f"{ns}::made", made, mutates_args=())
    assert op._opoverload._schema.returns[0].type.written == NAME
    assert isinstance(op(mq.ones(1)), Queue)
    with pytest.raises(ValueError, match="Scale"):
        infer_schema(scaled, mutates_args=())


def test_L106_an_optional_one_is_a_value_error():
    def f(q: Optional[Queue], x: Tensor) -> Tensor:  # noqa: UP045  # as users write it
        return x

    with pytest.raises(ValueError, match=r"the parameter q .*Optional"):
        infer_schema(f, mutates_args=())


@pytest.mark.parametrize("cls", [int, list, Tensor])
def test_L106_builtins_and_tensors_are_value_errors(cls):
    with pytest.raises(ValueError, match=f"{cls.__name__} cannot be an opaque type"):
        register_opaque_type(cls, typ="reference")


def test_L106_a_pytree_class_is_a_value_error():
    class Tree:
        pass

    register_pytree_node(Tree, lambda t: ([], None), lambda c, ctx: Tree())
    with pytest.raises(ValueError, match="pytree"):
        register_opaque_type(Tree, typ="reference")
    deregister_pytree_node(Tree)


@pytest.mark.parametrize("part", ["__eq__", "__hash__", "__fx_repr__"])
def test_L106_a_value_without_a_part_is_a_type_error(part):
    parts = {k: Scale.__dict__[k] for k in ("__eq__", "__hash__", "__fx_repr__") if k != part}
    if part == "__hash__":
        parts["__hash__"] = None
    with pytest.raises(TypeError, match=part):
        register_opaque_type(type("Value", (), parts), typ="value")


def test_L106_a_value_with_a_guard_is_a_type_error():
    with pytest.raises(TypeError, match="guard_fn"):
        register_opaque_type(Scale, typ="value", guard_fn=lambda s: [s.n])
    register_opaque_type(Scale, typ="value")


def test_L106_another_typ_is_an_assertion_error():
    with pytest.raises(AssertionError, match="symbol"):
        register_opaque_type(Queue, typ="symbol")


def test_L106_enums_are_values(ns):
    def f(mode: Mode, x: Tensor) -> Tensor:
        return x * mode.value

    op = custom_op(f"{ns}::f", f, mutates_args=())
    op.register_fake(lambda mode, x: mq.empty_like(x))
    traced = make_fx(lambda x: op(Mode.DOUBLE, x), tracing_mode="fake")(mq.ones(2))
    assert "Mode.DOUBLE" in traced.code.replace("_Mode", ".Mode").replace(".Mode", "Mode")
    assert traced(mq.ones(1)).tolist() == [2]


def test_L106_a_value_is_a_constant_of_the_graph(ns):
    def f(s: Scale, x: Tensor) -> Tensor:
        return x * s.n

    op = custom_op(f"{ns}::f", f, mutates_args=())
    op.register_fake(lambda s, x: mq.empty_like(x))
    traced = make_fx(lambda s, x: op(s, x), tracing_mode="fake")(Scale(5), mq.ones(2))
    assert "Scale(5)" in traced.code
    assert traced(None, mq.ones(1)).tolist() == [5]


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_L107_a_fake_that_reads_a_reference_raises_when_traced(reading, mode):
    reading.name = "n"
    trace = make_fx(lambda q, x: reading(q, x), tracing_mode=mode)
    with pytest.raises(AttributeError, match="attribute n of a Queue"):
        trace(Queue(), mq.ones(2))


def test_L107_members_are_read_and_isinstance_holds(reading):
    reading.name = "kind"
    traced = make_fx(lambda q, x: reading(q, x), tracing_mode="fake")(Queue(), mq.ones(2))
    assert reading.seen == [(True, "fifo")]
    assert traced(Queue(), mq.ones(2)).tolist() == [3, 3]


def test_L107_setting_any_attribute_raises_when_traced(reading):
    def f(q, x):
        q.kind = "lifo"
        return reading(q, x)

    with pytest.raises(AttributeError, match="kind of a Queue cannot be set"):
        make_fx(f, tracing_mode="fake")(Queue(), mq.ones(2))


def test_L107_an_object_from_elsewhere_is_an_attribute_of_the_graph(reading):
    reading.name = "n"
    queue = Queue()
    traced = make_fx(lambda x: reading(queue, x))(mq.ones(2))
    queue.n = 7
    assert traced(mq.ones(1)).tolist() == [7]


def test_L107_a_fake_class_needs_the_classmethod():
    register_class("opaque_test::Q", Queue)
    with pytest.raises(RuntimeError, match="__obj_unflatten__ as a classmethod"):
        register_fake_class("opaque_test::Q", type("FakeQ", (), {}))
