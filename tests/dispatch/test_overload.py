"""`OpOverload`: names, identity, facts, calls with a key set, answers per key (D71-D80, D82)."""

import copy
import pickle

import pytest

import maquette as mq
from maquette.dispatch import (
    DispatchKey,
    DispatchKeySet,
    OpOverload,
    TorchDispatchMode,
    TorchDispatchModeKey,
    all_py_loaded_overloads,
    enable_python_dispatcher,
    find_schema_or_throw,
    get_cached_ops,
    get_current_dispatch_mode_stack,
    len_torch_dispatch_stack_pre_dispatch,
    no_dispatch,
    reset_cached_ops,
)

K = DispatchKey
KS = DispatchKeySet
aten = mq.ops.aten


class Passing(TorchDispatchMode):
    """Counts the calls that reach it."""

    def __init__(self, _dispatch_key=None):
        super().__init__(_dispatch_key)
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


class Proxy(Passing):
    _mode_key = TorchDispatchModeKey.PROXY


# --- names -----------------------------------------------------------------------------------


def test_D71_the_names_of_a_named_overload():
    op = aten.add.Tensor
    assert op.name() == op._name == op.__qualname__ == "aten::add.Tensor"
    assert (op.__name__, op.namespace, op._opname, op._overloadname) == (
        "add.Tensor",
        "aten",
        "add",
        "Tensor",
    )
    assert str(op) == "aten.add.Tensor"
    assert repr(op) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert op.__module__ == mq.ops.aten.__name__


def test_D71_the_names_of_the_unnamed_overload():
    op = aten.mm.default
    assert (op.name(), op.__name__, str(op)) == ("aten::mm", "mm.default", "aten.mm.default")


def test_D71_what_else_an_overload_shows(x):
    op = aten.add.Tensor
    assert op.overloadpacket is aten.add
    assert op.op(x, x).shape == (2, 3)
    assert op._schema.name == "aten::add"
    assert all(isinstance(tag, mq.Tag) for tag in op.tags)


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        lambda op: pickle.loads(pickle.dumps(op)),
    ],
)
def test_D72_there_is_one_object(again):
    for op in (aten.add.Tensor, aten.mm.default):
        assert again(op) is op
    assert len({aten.add.Tensor, aten.add.Tensor, aten.add.Scalar}) == 2


@pytest.mark.parametrize(
    "name, is_view",
    [
        ("view.default", True),
        ("split.Tensor", True),
        ("reshape.default", True),
        ("contiguous.default", True),
        ("add_.Tensor", False),
        ("add.out", False),
        ("t_.default", False),
        ("add.Tensor", False),
        ("_unsafe_view.default", False),
    ],
)
def test_D73_a_view_shares_and_writes_nothing(name, is_view):
    packet, overload = name.split(".")
    assert getattr(getattr(aten, packet), overload).is_view is is_view


def test_D74_who_defined_it_and_whether_it_draws(define):
    seeded = define("f(Tensor x) -> Tensor", tags=(mq.Tag.nondeterministic_seeded,))
    plain = define("g(Tensor x) -> Tensor")
    assert (seeded._defined_in_python, aten.add.Tensor._defined_in_python) == (True, False)
    assert seeded._nondeterministic_seeded is True
    assert plain._nondeterministic_seeded is False
    assert plain.tags == []


# --- calls with a key set --------------------------------------------------------------------


def test_D75_redispatch_uses_exactly_the_set(x):
    y = mq.ones(2, 3).requires_grad_()
    add = aten.add.Tensor
    assert not add.redispatch(KS(K.CPU), x, y).requires_grad
    assert not add.redispatch(KS(K.CPU, K.BackendSelect), x, y).requires_grad
    assert add.redispatch(KS(K.CPU, K.AutogradCPU), x, y).requires_grad


def test_D75_redispatch_does_not_ask_the_thread(x):
    mode = Passing()
    with mode:
        aten.add.Tensor.redispatch(KS(K.CPU), x, x)
    assert mode.count == 0


def test_D76_a_kernel_by_its_key(x):
    y = mq.ones(2, 3).requires_grad_()
    assert aten.add.Tensor._op_dk(K.CPU, x, x).shape == (2, 3)
    assert not aten.add.Tensor._op_dk("CPU", y, y).requires_grad
    assert aten.add.Tensor._op_dk(K.AutogradCPU, y, y).requires_grad
    with pytest.raises(NotImplementedError, match="QuantizedCPU"):
        aten.mm.default._op_dk(K.QuantizedCPU, x, x)


def test_D76_handles_and_schemas_by_name(x):
    handle = aten.add.Tensor._handle
    assert handle.schema() is aten.add.Tensor._schema
    assert handle.redispatch_boxed(KS(K.CPU), x, x).shape == (2, 3)
    assert find_schema_or_throw("aten::add", "Tensor").schema() == handle.schema()
    with pytest.raises(RuntimeError, match="aten::nope"):
        find_schema_or_throw("aten::nope", "")


def test_D77_composites_decompose_and_others_do_not(x):
    square = mq.ones(2, 2)
    assert aten.matmul.default._can_decompose()
    assert aten.matmul.default.decompose(square, square).shape == (2, 2)
    assert not aten.mm.default._can_decompose()
    assert aten.mm.default.decompose(square, square) is NotImplemented


def test_D77_a_python_override_decomposes_first(define, x):
    op = define("f(Tensor x) -> str", CompositeImplicitAutograd=lambda x: "registered")
    assert op.decompose(x) == "registered"
    op.py_impl(K.CompositeImplicitAutograd)(lambda x: "python")
    assert op.decompose(x) == "python"


# --- answers per key -------------------------------------------------------------------------


@pytest.fixture
def op(define):
    return define("f(Tensor x) -> str", CPU=lambda x: "cpu")


def test_D78_the_answer_is_cached(op):
    assert op._get_dispatch(K.CPU) is K.CPU
    assert op._dispatch_cache == {K.CPU: K.CPU}
    assert op in get_cached_ops()
    with pytest.raises(AssertionError, match=r"f.*CPU"):
        op._get_dispatch(K.CPU)


def test_D78_an_override_is_the_answer_itself(op):
    def function(x):
        return "python"

    op.py_impl(K.CompositeExplicitAutograd)(function)
    assert op._get_dispatch(K.CUDA) is function
    assert op._get_dispatch(K.CPU) is K.CPU


def test_D78_an_entry_can_be_dropped(op):
    op._get_dispatch("CPU")
    op._uncache_dispatch(K.CPU)
    op._uncache_dispatch(K.CPU)
    assert op._get_dispatch("CPU") is K.CPU


def test_D79_without_rules_for_modes_python_is_python(op):
    assert op._get_dispatch(K.Python) is K.Python


def test_D79_a_rule_for_the_class_of_the_top_mode(op, x):
    stacks = []

    @op.py_impl(Passing)
    def rule(mode, x):
        stacks.append(get_current_dispatch_mode_stack())
        return "rule"

    outer, inner = Passing(), Passing()
    with enable_python_dispatcher(), outer, inner:
        assert op(x) == "rule"
    assert stacks == [[outer]]
    with outer, inner:
        assert op(x) == "cpu"


def test_D79_a_subclass_of_the_mode_is_asked_as_usual(op, x):
    class Other(Passing):
        pass

    op.py_impl(Passing)(lambda mode, x: "rule")
    with enable_python_dispatcher(), Other() as mode:
        assert op(x) == "cpu"
    assert mode.count == 1


def test_D80_pre_dispatch_modes_are_asked_and_never_cached(op, x):
    with enable_python_dispatcher(), Proxy(K.PreDispatch) as mode:
        assert op(x) == "cpu"
        assert mode.count == 1
        with no_dispatch():
            assert op(x) == "cpu"
    assert mode.count == 1
    assert K.PreDispatch not in op._dispatch_cache
    with enable_python_dispatcher():
        assert op(x) == "cpu"


def test_D80_the_mode_is_put_back_after_an_error(op, x):
    class Failing(Proxy):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert len_torch_dispatch_stack_pre_dispatch() == 0
            raise ValueError("handler")

    with enable_python_dispatcher(), Failing(K.PreDispatch):
        with pytest.raises(ValueError, match="handler"):
            op(x)
        assert len_torch_dispatch_stack_pre_dispatch() == 1


def test_D82_the_set_of_cached_operators(op):
    op._get_dispatch(K.CPU)
    reset_cached_ops()
    assert not get_cached_ops()


def test_D82_entering_a_pre_dispatch_mode_uncaches_it(op):
    op._get_dispatch(K.CPU)
    op._dispatch_cache[K.PreDispatch] = K.PreDispatch
    with Proxy(K.PreDispatch):
        assert K.PreDispatch not in op._dispatch_cache


def test_D82_loaded_overloads_are_those_bound(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.define("f.other(Tensor x, Tensor y) -> Tensor")
    bound = getattr(mq.ops, ns).f.other
    loaded = [op for op in all_py_loaded_overloads() if op.namespace == ns]
    assert loaded == [bound]


def test_D72_an_overload_has_no_second_class():
    assert type(aten.add.Tensor) is OpOverload
