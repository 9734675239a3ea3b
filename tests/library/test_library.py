"""`Library`: kinds, define, impl, fallbacks, lifetime."""

import gc
import threading

import pytest

import maquette as mq
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet, keyset_full_after
from maquette.dispatch.tags import Tag
from maquette.library import Library, _scoped_library, define, fallthrough_kernel, register_fake

HERE = __file__


def op_of(ns, name="f", overload="default"):
    return getattr(getattr(getattr(mq.ops, ns), name), overload)


def scaled(by):
    return lambda x: x * by


# --- kinds -----------------------------------------------------------------------------------


def test_L1_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="FOO"):
        Library("a", "FOO")


def test_L1_repr_shows_kind_namespace_and_key_after_destruction_too(ns):
    made = Library(ns, "IMPL", "CPU")
    made._destroy()
    assert all(part in repr(made) for part in ("IMPL", ns, "CPU"))


@pytest.mark.parametrize("kind", ["DEF", "FRAGMENT"])
def test_L2_prim_is_reserved(kind):
    with pytest.raises(ValueError, match="prim"):
        Library("prim", kind)


def test_L2_prim_takes_kernels():
    Library("prim", "IMPL")._destroy()


def test_L3_second_def_names_both_places(ns):
    first = Library(ns, "DEF")
    with pytest.raises(RuntimeError, match=ns) as error:
        Library(ns, "DEF")
    assert str(error.value).count(HERE) == 2
    first._destroy()
    Library(ns, "DEF")._destroy()


def test_L3_a_collected_def_makes_room(ns):
    first = Library(ns, "DEF")
    del first
    gc.collect()
    Library(ns, "DEF")._destroy()


def test_L4_unknown_key(ns):
    with pytest.raises(RuntimeError, match="Nope"):
        Library(ns, "IMPL", "Nope")


def test_L4_only_impl_binds_a_key(ns):
    with pytest.raises(RuntimeError, match="CPU"):
        Library(ns, "DEF", "CPU")


@pytest.mark.parametrize("kind", ["DEF", "FRAGMENT"])
def test_L5_all_namespaces_take_no_definitions(kind):
    with pytest.raises(RuntimeError, match="_"):
        Library("_", kind)


def test_L5_all_namespaces_carry_only_fallbacks():
    with _scoped_library("_", "IMPL") as lib:
        with pytest.raises(RuntimeError):
            lib.define("f(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError):
            lib.impl("f", scaled(2), "CPU")


# --- define ----------------------------------------------------------------------------------


def test_L6_define_returns_the_name_without_overload(lib):
    assert lib.define("foo.bar(Tensor x) -> Tensor") == "foo"


def test_L7_alias_analysis(lib):
    lib.define("f(Tensor x) -> Tensor", "CONSERVATIVE")
    with pytest.raises(RuntimeError, match="PURE_FUNCTION"):
        lib.define("g(Tensor x) -> Tensor", "PURE_FUNCTION")


def test_L8_tags_are_those_given(lib, ns):
    lib.define("f(Tensor x) -> Tensor", tags=Tag.pointwise)
    lib.define("g(Tensor x) -> Tensor", tags=(Tag.pointwise, Tag.core))
    assert op_of(ns).tags == [Tag.pointwise]
    assert op_of(ns, "g").tags == [Tag.pointwise, Tag.core]


def test_L9_an_overload_is_defined_once(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"f\(Tensor x\)") as error:
        define(f"{ns}::f", "(Tensor x) -> Tensor", lib=lib)
    assert str(error.value).count(HERE) == 2


def test_L10_impl_libraries_cannot_define(ns):
    with _scoped_library(ns, "IMPL") as lib, pytest.raises(RuntimeError, match=f"{ns}::f.*{HERE}"):
        lib.define("f(Tensor x) -> Tensor")


def test_L11_own_namespace_in_a_schema_is_the_bare_form(lib, ns):
    lib.define(f"{ns}::f(Tensor x) -> Tensor")
    assert op_of(ns).name() == f"{ns}::f"
    lib._destroy()
    assert "f" not in dir(getattr(mq.ops, ns))


def test_L11_other_namespace_in_a_schema(lib, ns):
    with pytest.raises(RuntimeError, match=f"other::q.*{ns}"):
        lib.define("other::q(Tensor x) -> Tensor")


@pytest.mark.parametrize(
    "schema",
    [
        "bad(Tensor x -> Tensor",
        "bad(Foo x) -> Tensor",
        "onlyname",
        "h.default(Tensor x) -> Tensor",
        "h.__x(Tensor x) -> Tensor",
    ],
)
def test_L12_malformed_schemas(lib, schema):
    with pytest.raises(RuntimeError, match=schema.partition("(")[0]):
        lib.define(schema)


def test_L13_a_packet_gains_later_overloads(lib, ns):
    lib.define("foo(Tensor x) -> Tensor")
    packet = getattr(mq.ops, ns).foo
    lib.define("foo.baz(Tensor x, int n) -> Tensor")
    assert "baz" in packet.overloads()
    assert getattr(mq.ops, ns).foo is packet


@pytest.mark.parametrize(
    "schema",
    [
        "(Tensor x) -> Tensor",
        "(Tensor(a!) x) -> Tensor(a!)",
        "(Tensor x, *, Tensor(a!)[] out) -> Tensor(a!)",
        "(Tensor x, *, Tensor(a!) out) -> ()",
        "(Tensor x, *, Tensor(a!) out) -> Tensor",
        "(Tensor x, *, Tensor(a!) out) -> Tensor(a)",
        "(Tensor x, *, Tensor(a!) o, Tensor(b!) p) -> (Tensor(b!), Tensor(a!))",
    ],
)
def test_L14_tag_out_breaches(lib, schema):
    with pytest.raises(ValueError, match=r"Tag\.out"):
        lib.define("f" + schema, tags=Tag.out)


def test_L14_tag_out_as_it_should_be(lib, ns):
    lib.define(
        "f(Tensor x, *, Tensor(a!) o, Tensor(b!) p) -> (Tensor(a!), Tensor(b!))", tags=Tag.out
    )
    assert op_of(ns).tags == [Tag.out]


@pytest.mark.parametrize(
    "schema",
    [
        "(Tensor x) -> Tensor",
        "(*, Tensor(a!) x) -> Tensor(a!)",
        "(Tensor(a!) x) -> ()",
        "(Tensor(a!) x) -> Tensor",
        "(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)",
    ],
)
def test_L15_tag_inplace_breaches(lib, schema):
    with pytest.raises(ValueError, match=r"Tag\.inplace"):
        lib.define("f" + schema, tags=Tag.inplace)


def test_L15_inplace_excludes_out(lib):
    with pytest.raises(ValueError, match="not both"):
        lib.define("f(Tensor(a!) x) -> Tensor(a!)", tags=(Tag.inplace, Tag.out))


def test_L16_a_kernel_waits_for_its_operator(lib, ns):
    lib.impl("f", scaled(2), "CPU")
    assert "f" not in dir(getattr(mq.ops, ns))
    lib.define("f(Tensor x) -> Tensor")
    assert op_of(ns)(mq.ones(2)).numpy().tolist() == [2, 2]


def test_L16_a_kernel_outlives_a_definition(lib, ns):
    lib.impl("f", scaled(2), "CPU")
    with _scoped_library(ns, "DEF") as first:
        first.define("f(Tensor x) -> Tensor")
    lib.define("f(Tensor x) -> Tensor")
    assert op_of(ns)(mq.ones(2)).numpy().tolist() == [2, 2]


def test_L16_meta_kernels_and_fakes_need_the_operator(lib, ns):
    with pytest.raises(RuntimeError, match=f"{ns}::none"):
        lib.impl("none", scaled(2), "Meta")
    with pytest.raises(RuntimeError, match=f"{ns}::none"):
        register_fake(f"{ns}::none", scaled(2), lib=lib)


# --- impl ------------------------------------------------------------------------------------


def test_L17_kernels_are_callables(lib):
    with pytest.raises(TypeError, match="int"):
        lib.impl("f", 3)


def test_L17_an_operator_is_a_name_or_an_overload(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl(op_of(ns), scaled(2), "CPU")
    with pytest.raises(RuntimeError, match="OpOverloadPacket"):
        lib.impl(getattr(mq.ops, ns).f, scaled(2), "CPU")
    with pytest.raises(RuntimeError, match="int"):
        lib.impl(3, scaled(2), "CPU")


def test_L18_bound_key_and_argument_must_agree(ns):
    with _scoped_library(ns, "IMPL", "CPU") as lib:
        with pytest.raises(RuntimeError, match=r"CUDA.*CPU"):
            lib.impl("f", scaled(2), "CUDA")
        with pytest.raises(RuntimeError, match="Nope"):
            lib.impl("f", scaled(2), "Nope")


def test_L18_without_key_a_kernel_is_composite(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", scaled(2))
    key = DispatchKey.CompositeImplicitAutograd
    assert op_of(ns).has_kernel_for_dispatch_key(key)


def test_L18_keys_may_be_dispatch_keys(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", scaled(2), DispatchKey.CPU)
    assert op_of(ns).has_kernel_for_dispatch_key(DispatchKey.CPU)


def test_L19_other_namespaces_operators_need_their_own_library(lib, ns):
    with pytest.raises(RuntimeError, match=f"aten::neg.*{ns}"):
        lib.impl("aten::neg", scaled(2), "CPU")


def test_L19_an_override_ends_with_its_library():
    x = mq.ones(2)
    with _scoped_library("aten", "IMPL") as lib:
        with pytest.warns(UserWarning, match="aten::clone"):
            lib.impl("clone", lambda self: self * 5, "CPU")
        assert mq.ops.aten.clone(x).numpy().tolist() == [5, 5]
    assert mq.ops.aten.clone(x).numpy().tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore:.*overridden")
def test_L20_registrations_stack(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", scaled(2), "CPU")
    with _scoped_library(ns, "IMPL") as second:
        second.impl("f", scaled(3), "CPU")
        assert op_of(ns)(mq.ones(1)).numpy().tolist() == [3]
    assert op_of(ns)(mq.ones(1)).numpy().tolist() == [2]


@pytest.mark.filterwarnings("ignore:.*overridden")
def test_L20_removal_in_any_order_leaves_the_newest(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    libs = [Library(ns, "IMPL") for _ in range(3)]
    for i, each in enumerate(libs):
        each.impl("f", scaled(i), "CPU")
    libs[0]._destroy()
    libs[2]._destroy()
    assert op_of(ns)(mq.ones(1)).numpy().tolist() == [1]


def test_L21_overriding_warns_once_with_both_places(lib, ns, recwarn):
    lib.define("f(Tensor x) -> Tensor")
    for i in range(3):
        lib.impl("f", scaled(i), "CPU")
    (warning,) = recwarn
    assert f"{ns}::f" in str(warning.message)
    assert str(warning.message).count(HERE) == 2


def test_L21_meta_and_fake_override_silently(lib, ns, recwarn):
    lib.define("f(Tensor x) -> Tensor")
    for i in range(2):
        lib.impl("f", scaled(i), "Meta")
        register_fake(f"{ns}::f", scaled(i), lib=lib)
    assert not list(recwarn)


@pytest.mark.filterwarnings("ignore:.*overridden")
def test_L22_override_may_be_refused(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    holders = [Library(ns, "IMPL") for _ in range(2)]
    for each in holders:
        each.impl("f", scaled(2), "CPU")
    holders[0]._destroy()
    with pytest.raises(RuntimeError, match=f"{ns}::f.*CPU") as error:
        lib.impl("f", scaled(3), "CPU", allow_override=False)
    assert str(error.value).count(HERE) == 2
    lib.impl("f", scaled(3), "CUDA", allow_override=False)


def test_L23_meta_kernels_of_composites_are_refused(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", scaled(2))
    with pytest.raises(RuntimeError, match="decomposes"):
        lib.impl("f", scaled(3), "Meta")


def test_L24_a_kernel_may_take_the_keyset(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    seen = []

    def at_autograd(ks, x):
        seen.append(ks)
        return op_of(ns).redispatch(ks & keyset_full_after("AutogradCPU"), x)

    lib.impl("f", scaled(2), "CPU")
    lib.impl("f", at_autograd, "AutogradCPU", with_keyset=True)
    assert op_of(ns)(mq.ones(1)).numpy().tolist() == [2]
    assert isinstance(seen[0], DispatchKeySet)
    assert seen[0].has("AutogradCPU")


def test_L26_fallthrough_skips_a_key(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", scaled(2), "CPU")
    lib.impl("f", fallthrough_kernel, "AutogradCPU")
    x = mq.ones(2).requires_grad_()
    assert op_of(ns)(x).grad_fn.name() == "MulBackward0"


def test_L26_fallthrough_is_no_function():
    with pytest.raises(NotImplementedError):
        fallthrough_kernel()


@pytest.mark.parametrize(
    ("schema", "result", "expected"),
    [
        ("(Tensor x) -> ()", lambda x: x, "None"),
        ("(Tensor x) -> Tensor", lambda x: "s", "Tensor"),
        ("(Tensor x) -> Tensor", lambda x: (x,), "Tensor"),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x,), "2 values"),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x, x, x), "2 values"),
        ("(Tensor x) -> Tensor[]", lambda x: [x, 1], "Tensor"),
        ("(Tensor x) -> int", lambda x: 1.5, "int"),
    ],
)
def test_L27_results_must_fit_the_schema(lib, ns, schema, result, expected):
    lib.define("f" + schema)
    lib.impl("f", result, "CPU")
    with pytest.raises(RuntimeError, match=f"(?s){ns}::f.*{expected}"):
        op_of(ns)(mq.ones(2))


@pytest.mark.parametrize(
    ("schema", "result", "given"),
    [
        ("(Tensor x) -> ()", lambda x: None, None),
        ("(Tensor x) -> Tensor", lambda x: None, None),
        ("(Tensor x) -> (int, int)", lambda x: [1, 2], (1, 2)),
        ("(Tensor x) -> int[]", lambda x: (1, 2), [1, 2]),
        ("(Tensor x) -> float", lambda x: 1, 1.0),
        ("(Tensor x) -> ((int))", lambda x: (1,), (1,)),
    ],
)
def test_L27_results_come_in_one_form(lib, ns, schema, result, given):
    lib.define("f" + schema)
    lib.impl("f", result, "CPU")
    assert op_of(ns)(mq.ones(2)) == given


def test_L27_exceptions_pass_unchanged(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: 1 / 0, "CPU")
    with pytest.raises(ZeroDivisionError):
        op_of(ns)(mq.ones(2))


def test_L28_defaults_are_dropped_and_refilled(lib, ns):
    calls = []
    lib.define("f(Tensor x, int n=3, *, int m=4) -> ()")
    lib.impl("f", lambda *args, **kwargs: calls.append((args[1:], kwargs)), "CPU")
    op_of(ns)(mq.ones(2), 3, m=4)
    op_of(ns)(mq.ones(2), 5, m=6)
    assert calls == [((), {}), ((5,), {"m": 6})]


def test_L28_required_parameters_are_refilled(lib, ns):
    lib.define("f(Tensor x, int n=3, *, int m=4) -> int")
    lib.impl("f", lambda x, n, *, m: n * 10 + m, "CPU")
    assert op_of(ns)(mq.ones(2)) == 34


def test_L28_a_functions_own_default_stands_for_the_dropped_one(lib, ns):
    lib.define("f(Tensor x, int n=3) -> int")
    lib.impl("f", lambda x, n=7: n, "CPU")
    assert op_of(ns)(mq.ones(2), 3) == 7


def test_L28_lists_come_as_lists(lib, ns):
    lib.define("f(Tensor x, int[] a, int[]? b=None, *, Tensor[] c) -> ()")
    seen = []
    lib.impl("f", lambda x, a, b=None, *, c: seen.extend([a, b, c]), "CPU")
    x = mq.ones(2)
    op_of(ns)(x, (1, 2), (3,), c=(x,))
    assert seen[:2] == [[1, 2], [3]]
    assert type(seen[2]) is list


def test_L29_missing_kernels_are_named(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", scaled(2), "CPU")
    with pytest.raises(NotImplementedError, match=r"(?s)Meta.*register_fake.*CPU"):
        op_of(ns)(mq.ones(2, device="meta"))


def test_L31_writes_raise_the_version(lib, ns):
    lib.define("f(Tensor(a!) x, Tensor(b!)[] ys) -> ()")

    def write(x, ys):
        x.numpy()[...] = 0

    lib.impl("f", write, "CPU")
    x, y = mq.ones(2), mq.ones(2)
    with mq.no_grad():
        op_of(ns)(x, [y])
    assert (x._version, y._version) == (1, 1)


# --- fallbacks -------------------------------------------------------------------------------


def test_L32_fallbacks_belong_to_all_namespaces(lib, ns):
    with pytest.raises(RuntimeError, match=ns):
        lib.fallback(scaled(2), "PrivateUse1")
    with _scoped_library("_", "IMPL") as everything, pytest.raises(AssertionError):
        everything.fallback(scaled(2))


def test_L32_a_fallback_serves_operators_without_a_kernel(lib, ns):
    lib.define("f(Tensor x, int n=1) -> int")
    with _scoped_library("_", "IMPL") as everything:
        everything.fallback(lambda op, *args: (len(args), op is op_of(ns))[1] + 6, "CPU")
        assert op_of(ns)(mq.ones(2)) == 7
        with pytest.raises(RuntimeError, match="CPU") as error:
            everything.fallback(scaled(2), "CPU")
        assert str(error.value).count(HERE) == 2
    with pytest.raises(NotImplementedError):
        op_of(ns)(mq.ones(2))


def test_L32_a_kernel_goes_before_a_fallback(lib, ns):
    lib.define("f(Tensor x) -> int")
    lib.impl("f", lambda x: 1, "CPU")
    with _scoped_library("_", "IMPL", "CPU") as everything:
        everything.fallback(lambda op, x: 2)
        assert op_of(ns)(mq.ones(2)) == 1


def test_L32_a_fallback_may_take_the_keyset(lib, ns):
    lib.define("f(Tensor x) -> bool")
    with _scoped_library("_", "IMPL", "CPU") as everything:
        everything.fallback(lambda ks, op, x: ks.has("CPU"), with_keyset=True)
        assert op_of(ns)(mq.ones(2)) is True


# --- lifetime --------------------------------------------------------------------------------


def test_L33_an_older_fake_comes_back(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    x = mq.ones(2, device="meta")
    register_fake(f"{ns}::f", lambda x: x.new_empty(3), lib=lib)
    with _scoped_library(ns, "IMPL") as second:
        register_fake(f"{ns}::f", lambda x: x.new_empty(4), lib=second)
        assert op_of(ns)(x).shape == (4,)
    assert op_of(ns)(x).shape == (3,)


def test_L33_fakes_of_a_library_end_with_it(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    with _scoped_library(ns, "IMPL") as fakes:
        fakes._register_fake("f", lambda x: x.new_empty(3))
        with pytest.raises(RuntimeError, match="a fake already"):
            fakes._register_fake("f", lambda x: x.new_empty(4))
        assert op_of(ns)(mq.ones(2, device="meta")).shape == (3,)
    with pytest.raises(NotImplementedError):
        op_of(ns)(mq.ones(2, device="meta"))


def test_L37_a_destroyed_operator_is_gone(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    op_of(ns)
    lib._destroy()
    lib._destroy()
    with pytest.raises(AttributeError, match=f"f.*{ns}"):
        op_of(ns)
    assert "f" not in dir(getattr(mq.ops, ns))


def test_L37_a_destroyed_library_registers_nothing(lib, ns):
    lib._destroy()
    with pytest.raises(AssertionError, match="destroyed"):
        lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(AssertionError, match="destroyed"):
        lib.impl("f", scaled(2))
    with pytest.raises(AssertionError, match="destroyed"):
        define(f"{ns}::f", "(Tensor x) -> Tensor", lib=lib)


def test_L38_collection_destroys(ns):
    lib = Library(ns, "DEF")
    lib.define("f(Tensor x) -> Tensor")
    op_of(ns)
    del lib
    gc.collect()
    assert not hasattr(getattr(mq.ops, ns), "f")


def test_L38_a_collected_impl_library_drops_its_kernels_only(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    kernels = Library(ns, "IMPL")
    kernels.impl("f", scaled(2), "CPU")
    del kernels
    gc.collect()
    with pytest.raises(NotImplementedError):
        op_of(ns)(mq.ones(2))


def test_L39_a_scoped_library_ends_with_its_block(ns):
    def fail():
        with _scoped_library(ns, "DEF") as lib:
            lib.define("f(Tensor x) -> Tensor")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not hasattr(getattr(mq.ops, ns), "f")


def test_L40_a_packet_loses_only_the_destroyed_overloads(lib, ns):
    lib.define("foo(Tensor x) -> Tensor")
    with _scoped_library(ns, "FRAGMENT") as other:
        other.define("foo.qux(Tensor x, int n) -> Tensor")
        other.impl("foo.qux", lambda x, n: x * n, "CPU")
        packet = getattr(mq.ops, ns).foo
        lib._destroy()
        assert packet.overloads() == ["qux"]
        assert packet(mq.ones(1), 3).numpy().tolist() == [3]
        with pytest.raises(AttributeError, match="default"):
            _ = packet.default


def test_L42_a_stale_overload_says_where_it_was_defined(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", scaled(2), "CPU")
    op, packet = op_of(ns), getattr(mq.ops, ns).f
    op(mq.ones(2))
    lib._destroy()
    for stale in (op, packet):
        with pytest.raises(RuntimeError, match=f"(?s){ns}::f"):
            stale(mq.ones(2))
    with pytest.raises(RuntimeError, match=HERE):
        op(mq.ones(2))


@pytest.mark.filterwarnings("ignore:.*overridden")
def test_L43_a_new_kernel_runs_at_the_next_call(lib, ns):
    lib.define("f(Tensor x) -> int")
    lib.impl("f", lambda x: 1, "CPU")
    first = op_of(ns)(mq.ones(2))
    lib.impl("f", lambda x: 2, "CPU")
    assert (first, op_of(ns)(mq.ones(2))) == (1, 2)


@pytest.mark.filterwarnings("ignore:.*overridden")
def test_L43_registering_beside_running_calls(lib, ns):
    lib.define("f(Tensor x) -> int")
    lib.impl("f", lambda x: 0, "CPU")
    op, x, failures = op_of(ns), mq.ones(2), []

    def work(i):
        try:
            for _ in range(30):
                with _scoped_library(ns, "IMPL") as own:
                    own.impl("f", lambda x: i, "CPU")
                    assert 0 <= op(x) < 8
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert op(x) == 0


def test_L73_tensors_select_the_kernel_before_a_device_argument_does(lib, ns):
    lib.define("f(Tensor x, Device d) -> Tensor")
    lib.impl("f", lambda x, d: x, "CPU")
    x = mq.ones(2)
    assert op_of(ns)(x, "cuda") is x


@pytest.mark.parametrize("schema", [3, None, b"f() -> ()", ["f() -> ()"]])
def test_L12_a_schema_that_is_no_text_is_refused_and_leaves_nothing(lib, schema):
    library = mq.library
    calls = [
        lambda: lib.define(schema),
        lambda: library.define(f"{lib.ns}::f", schema, lib=lib),
        lambda: library.define(lib, schema),
    ]
    if schema is not None:
        name = f"{lib.ns}::f"
        calls.append(lambda: library.custom_op(name, len, mutates_args=(), schema=schema))
    for call in calls:
        with pytest.raises(TypeError, match="expected the text of a schema"):
            call()
    assert not hasattr(getattr(mq.ops, lib.ns), "f")
