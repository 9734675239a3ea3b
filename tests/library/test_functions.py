"""The functions that name an operator: define, impl, register_*, get_kernel."""

import numpy as np
import pytest

import maquette as mq
from maquette import Tensor
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.library import (
    Cost,
    _scoped_library,
    custom_op,
    define,
    get_kernel,
    impl,
    impl_abstract,
    register_autograd,
    register_cost,
    register_fake,
    register_kernel,
    register_shape,
    register_vmap,
)


def op_of(ns, name="f", overload="default"):
    return getattr(getattr(getattr(mq.ops, ns), name), overload)


def times(by):
    return lambda x: x * by


@pytest.fixture
def name(lib, ns):
    """The qualname of a defined operator ``f(Tensor x) -> Tensor``."""
    lib.define("f(Tensor x) -> Tensor")
    return f"{ns}::f"


# --- define and impl -------------------------------------------------------------------------


def test_L41_without_library_a_definition_stays(ns):
    define(f"{ns}::f", "(Tensor x) -> Tensor")
    impl(f"{ns}::f", "cpu", times(2))
    assert op_of(ns)(mq.ones(1)).numpy().tolist() == [2]


def test_L41_a_library_of_another_namespace_is_refused():
    with _scoped_library("b", "FRAGMENT") as other, pytest.raises(RuntimeError, match=r"\ba\b.*b"):
        impl("a::f", "cpu", times(2), lib=other)


@pytest.mark.parametrize("qualname", ["foo", "a::b::c"])
def test_L44_a_qualname_has_one_separator(qualname):
    with pytest.raises(ValueError, match=f"namespace::name.*{qualname}"):
        define(qualname, "(Tensor x) -> Tensor")


@pytest.mark.parametrize("schema", ["foo(Tensor x) -> Tensor", "(Tensor x)"])
def test_L45_define_takes_a_nameless_schema(ns, schema):
    with pytest.raises(ValueError, match="nameless"):
        define(f"{ns}::f", schema)


def test_L45_a_qualname_is_a_str():
    with pytest.raises(ValueError, match="int"):
        define(3, "(Tensor x) -> Tensor")


def test_L46_the_old_define_decorates(lib, ns):
    lib.define("f(Tensor x) -> Tensor")

    @define(lib, "f.o2(Tensor x, int y) -> Tensor")
    def f(x, y):
        return x * y

    assert f(3, 4) == 12
    assert op_of(ns, "f", "o2")(mq.ones(1), 3).numpy().tolist() == [3]
    with pytest.raises(NotImplementedError):
        op_of(ns)(mq.ones(1))


def test_L47_impl_names_devices_keys_and_default(name, lib):
    impl(name, ["cpu", "AutogradCPU"], times(2), lib=lib)
    impl(name, "default", times(3), lib=lib)
    op = op_of(lib.ns)
    for key in ("CPU", "AutogradCPU", "CompositeExplicitAutograd"):
        assert op.has_kernel_for_dispatch_key(DispatchKey(key))


def test_L47_impl_decorates(name, lib):
    @impl(name, "cpu", lib=lib)
    def twice(x):
        return x * 2

    assert twice(3) == 6
    assert impl(name, [], twice, lib=lib) is None
    assert op_of(lib.ns)(mq.ones(1)).numpy().tolist() == [2]


def test_L47_unknown_devices_list_the_known(name):
    with pytest.raises(RuntimeError, match=r"cpu, cuda.*nodevice"):
        impl(name, "nodevice", times(2))


def test_L47_the_old_impl_decorates(name, lib):
    @impl(lib, "f", "CPU")
    def twice(x):
        return x * 2

    assert twice(3) == 6
    assert op_of(lib.ns)(mq.ones(1)).numpy().tolist() == [2]


# --- registering by operator -----------------------------------------------------------------


@pytest.mark.parametrize("function", [register_fake, register_vmap, register_autograd])
def test_L48_an_operator_is_named_by_str_overload_or_opdef(name, lib, function):
    for op in (getattr(mq.ops, lib.ns).f, 3):
        with pytest.raises(ValueError, match=f"{function.__name__}.*{type(op).__name__}"):
            function(op, times(2))


@pytest.mark.parametrize("function", [register_vmap, register_autograd, register_cost])
def test_L48_some_need_an_existing_operator(ns, function):
    with pytest.raises(AttributeError, match=f"{ns}::none"):
        function(f"{ns}::none", times(2))


def test_L48_a_live_opdef_does_the_work_however_named(ns):
    @custom_op(f"{ns}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    register_fake(f"{ns}::f", lambda x: x.new_empty(7))
    register_kernel(f._opoverload, "cpu", lambda x: x * 3)
    assert f(mq.ones(2, device="meta")).shape == (7,)
    assert f(mq.ones(1)).numpy().tolist() == [3]


def test_L49_a_device_kernel_beats_the_default(name, lib):
    register_kernel(name, None, times(2), lib=lib)
    register_kernel(name, "cpu", times(3), lib=lib)
    assert op_of(lib.ns)(mq.ones(1)).numpy().tolist() == [3]


def test_L49_register_kernel_returns_the_function(name, lib):
    twice = times(2)
    assert register_kernel(name, "cpu", lib=lib)(twice) is twice


def test_L50_register_fake_returns_the_function(name, lib):
    @register_fake(name, lib=lib)
    def fake(x):
        return x.new_empty(5)

    assert register_fake(name, fake, lib=lib) is fake
    assert op_of(lib.ns)(mq.ones(2, device="meta")).shape == (5,)


def test_L50_the_former_name_warns(name, lib):
    with pytest.warns(FutureWarning, match="register_fake"):
        impl_abstract(name, lambda x: x.new_empty(5), lib=lib)
    assert op_of(lib.ns)(mq.ones(2, device="meta")).shape == (5,)


# --- get_kernel ------------------------------------------------------------------------------


def test_L51_an_override_may_call_what_it_overrides():
    kernel = get_kernel("aten::neg", "CPU")
    with _scoped_library("aten", "IMPL") as lib:
        seen = []

        def counted(ks, *args, **kwargs):
            seen.append(1)
            return kernel.call_boxed(ks, *args, **kwargs)

        with pytest.warns(UserWarning, match="overridden"):
            lib.impl("neg", counted, "CPU", with_keyset=True)
        assert mq.ops.aten.neg(mq.ones(1)).numpy().tolist() == [-1]
    assert seen == [1]


def test_L51_composites_count(name, lib):
    impl(name, "CompositeImplicitAutograd", times(2), lib=lib)
    handle = get_kernel(op_of(lib.ns), "CPU")
    assert handle.call_boxed(DispatchKeySet("CPU"), mq.ones(1)).numpy().tolist() == [2]
    assert __file__ in repr(handle)


def test_L51_opdefs_are_operators(ns):
    made = custom_op(f"{ns}::f", times(2), mutates_args=(), schema="(Tensor x) -> Tensor")
    handle = get_kernel(made, "CPU")
    assert handle.call_boxed(DispatchKeySet("CPU"), mq.ones(1)).numpy().tolist() == [2]


def test_L51_errors(name, lib):
    impl(name, "cpu", times(2), lib=lib)
    with pytest.raises(ValueError, match="Nope"):
        get_kernel(name, "Nope")
    with pytest.raises(ValueError, match="OpOverloadPacket"):
        get_kernel(getattr(mq.ops, lib.ns).f, "CPU")
    with pytest.raises(RuntimeError, match="exist"):
        get_kernel(f"{lib.ns}::none", "CPU")
    with pytest.raises(RuntimeError, match="CUDA"):
        get_kernel(name, "CUDA")
    with pytest.raises(RuntimeError, match="alias"):
        get_kernel(name, "CompositeExplicitAutograd")


def test_L42_a_stale_handle_says_so(name, lib):
    impl(name, "cpu", times(2), lib=lib)
    handle = get_kernel(name, "CPU")
    lib._destroy()
    with pytest.raises(RuntimeError, match=f"{name}.*{__file__}"):
        handle.call_boxed(DispatchKeySet("CPU"), mq.ones(1))


# --- fakes of library operators ----------------------------------------------------------------


def test_L77_fake_and_meta_calls_agree(name, lib):
    register_fake(name, lambda x: x.new_empty(x.shape[0] + 1, dtype=mq.int64), lib=lib)
    mode = mq.FakeTensorMode()
    fake = op_of(lib.ns)(mode.from_tensor(mq.ones(2)))
    meta = op_of(lib.ns)(mq.ones(2, device="meta"))
    assert fake.shape == meta.shape == (3,)
    assert fake.dtype == meta.dtype == mq.int64


def test_L77_a_fake_sees_the_claimed_device(name, lib):
    seen = []

    def fake(x):
        seen.append((type(x), x.device))
        return x.new_empty(2)

    register_fake(name, fake, lib=lib)
    with mq.FakeTensorMode():
        out = op_of(lib.ns)(mq.ones(2, device="cuda"))
    assert seen == [(mq.FakeTensor, mq.device("cuda:0"))]
    assert out.device == mq.device("cuda:0")


def test_L79_the_newest_rung_answers(name, lib, ns):
    op, mode = op_of(ns), mq.FakeTensorMode()
    x = mode.from_tensor(mq.ones(2))
    sizes = []
    for key, size in (
        ("CompositeImplicitAutograd", 3),
        ("CompositeExplicitAutograd", 4),
        ("Meta", 5),
    ):
        # A kernel for Meta is refused beside a decomposition, so each rung is a library of its own.
        with _scoped_library(ns, "IMPL") as rung:
            rung.impl("f", lambda x, size=size: x.new_empty(size), key)
            sizes.append(op(x).shape[0])
            if key != "CompositeImplicitAutograd":
                register_fake(name, lambda x: x.new_empty(6), lib=rung)
                sizes.append(op(x).shape[0])
    assert sizes == [3, 4, 6, 5, 6]


def test_L79_without_any_rung(name, ns):
    x = mq.FakeTensorMode().from_tensor(mq.ones(2))
    with pytest.raises(RuntimeError, match=f"{ns}.f"):
        op_of(ns)(x)


def test_L80_a_fake_may_refuse_to_replace(name, lib):
    register_fake(name, times(2), lib=lib)
    with pytest.raises(RuntimeError, match=f"{name}.*{__file__}"):
        register_fake(name, times(3), lib=lib, allow_override=False)


def test_L80_decompositions_need_no_fake(name, lib):
    impl(name, "CompositeImplicitAutograd", times(2), lib=lib)
    with pytest.raises(RuntimeError, match="decomposes"):
        register_fake(name, times(2), lib=lib)


def test_L85_errors_in_a_fake_propagate(name, lib):
    register_fake(name, lambda x: 1 / 0, lib=lib)
    with pytest.raises(ZeroDivisionError):
        op_of(lib.ns)(mq.FakeTensorMode().from_tensor(mq.ones(2)))


def test_L85_a_fake_returns_no_real_tensor(name, lib):
    real = mq.ones(3)
    register_fake(name, lambda x: real, lib=lib)
    with pytest.raises(RuntimeError, match=f"(?s){lib.ns}.f.*{__file__}"):
        op_of(lib.ns)(mq.FakeTensorMode().from_tensor(mq.ones(2)))


# --- the page, by public calls -----------------------------------------------------------------


def test_L33_a_batching_rule_and_a_cost_end_with_their_library(name, ns):
    op = op_of(ns)
    with _scoped_library(ns, "IMPL") as first:
        register_vmap(name, times(2), lib=first)
        with _scoped_library(ns, "IMPL") as second:
            three = times(3)
            assert register_vmap(name, three, lib=second) is three
            register_cost(name, lambda x, out: Cost(flops=7), lib=second)
            assert op.facts.batching is three
            assert op.facts.cost(None, None).flops == 7
        assert op.facts.batching is not three
        assert op.facts.cost is None
    assert op.facts.batching is None


def test_LX1_a_shape_rule_serves_meta_and_fake(name, lib):
    register_shape(name, lambda x: x.fresh((x.shape[0] * 2,)))
    op, mode = op_of(lib.ns), mq.FakeTensorMode()
    assert op(mq.ones(2, device="meta")).shape == (4,)
    assert op(mode.from_tensor(mq.ones(3))).shape == (6,)


def test_LX2_kernels_on_arrays(name, lib):
    register_kernel(name, "cpu", lambda a: a * 2, lib=lib, arrays=True)
    out = op_of(lib.ns)(mq.ones(2))
    assert isinstance(out, Tensor)
    assert out.numpy().tolist() == [2, 2]


def test_LX2_a_result_never_shares_the_arguments_memory(name, lib):
    register_kernel(name, "cpu", lambda a: np.flip(a)[::-1], lib=lib, arrays=True)
    x = mq.ones(2)
    assert op_of(lib.ns)(x).data_ptr() != x.data_ptr()
