"""`custom_op`: definition, kernels, aliasing, tags, fakes."""

import logging
import re

import pytest

import maquette as mq
from maquette import Tensor
from maquette.dispatch.tags import Tag
from maquette.library import Library, custom_op, define, register_fake


def twice(x: Tensor) -> Tensor:
    return x * 2


def thrice(x: Tensor) -> Tensor:
    return x * 3


def numbers(x):
    return x.numpy().tolist()


@pytest.fixture
def op(ns):
    """A custom operator that doubles."""
    return custom_op(f"{ns}::f", twice, mutates_args=())


# --- definition ------------------------------------------------------------------------------


def test_L66_direct_or_decorator(ns):
    @custom_op(f"{ns}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    assert repr(f) == f"<CustomOpDef({ns}::f)>"
    assert f._opoverload is getattr(mq.ops, ns).f.default
    assert numbers(f(mq.ones(1))) == [2]


def test_L66_mutates_args_is_required(ns):
    with pytest.raises(TypeError, match="mutates_args"):
        custom_op(f"{ns}::f", twice)


@pytest.mark.parametrize("name", ["f", "a::b::c", "a::f.o.p", "a::1"])
def test_L66_names(name):
    with pytest.raises(ValueError, match=re.escape(name)):
        custom_op(name, twice, mutates_args=())


def test_L66_a_name_may_have_an_overload(ns):
    def sums(x: mq.Tensor, y: mq.Tensor) -> mq.Tensor:
        return x + y

    custom_op(f"{ns}::f", twice, mutates_args=())
    two = custom_op(f"{ns}::f.two", sums, mutates_args=())
    packet = getattr(mq.ops, ns).f
    assert two._opoverload is packet.two
    assert numbers(packet(mq.ones(1), mq.ones(1))) == [2]


def test_L67_tags(ns):
    def f(x: Tensor) -> Tensor:
        return x

    made = custom_op(f"{ns}::f", f, mutates_args=["x"], tags=Tag.inplace)
    assert made._opoverload.tags == [Tag.pt2_compliant_tag, Tag.inplace]
    tags = [Tag.core, Tag.pt2_compliant_tag]
    other = custom_op(f"{ns}::g", twice, mutates_args=(), tags=tags)
    assert other._opoverload.tags == [Tag.pt2_compliant_tag, Tag.core]


def test_L68_redefining_replaces_an_opdef(op, ns):
    custom_op(f"{ns}::f", thrice, mutates_args=())
    assert numbers(getattr(mq.ops, ns).f(mq.ones(1))) == [3]


def test_L68_a_library_definition_is_not_replaced(lib, ns):
    define(f"{ns}::f", "(Tensor x) -> Tensor", lib=lib)
    with pytest.raises(RuntimeError, match=f"{ns}::f"):
        custom_op(f"{ns}::f", twice, mutates_args=())


@pytest.mark.parametrize("mutates_args", [(), ["y"], "unknown"])
def test_L69_a_schema_writes_what_mutates_args_says(ns, mutates_args):
    with pytest.raises(ValueError, match=r"the op mutates \{'x'\}"):
        custom_op(
            f"{ns}::f", lambda x: None, mutates_args=mutates_args, schema="(Tensor(a!) x) -> ()"
        )
    with pytest.raises(AttributeError):
        _ = getattr(mq.ops, ns).f


def test_L69_a_schema_stands_for_annotations(ns):
    made = custom_op(f"{ns}::f", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert numbers(made(mq.ones(1))) == [2]


def test_L69_a_failure_leaves_nothing_defined(ns):
    with pytest.raises(RuntimeError, match="nodevice"):
        custom_op(f"{ns}::f", twice, mutates_args=(), device_types="nodevice")
    assert not hasattr(getattr(mq.ops, ns), "f")


def test_L70_keyword_only_tensors_need_tag_out(ns):
    def f(x: Tensor, *, y: Tensor) -> Tensor: ...

    with pytest.raises(NotImplementedError, match=r"\(Tensor x, \*, Tensor y\)"):
        custom_op(f"{ns}::f", f, mutates_args=())


def test_L70_other_keyword_only_arguments(ns):
    @custom_op(f"{ns}::f", mutates_args=())
    def f(x: Tensor, *, by: float) -> Tensor:
        return x * by

    assert numbers(f(mq.ones(1), by=3.0)) == [3]
    with pytest.raises(RuntimeError, match=r"\(Tensor x, \*, float by\)"):
        f(mq.ones(1), 3.0)


@pytest.mark.parametrize(
    ("annotation", "bad", "found"),
    [
        ("int", 1.5, "float"),
        ("int | float | bool", mq.ones(2), "Tensor"),
        ("list[int]", 3, "int"),
        ("Tensor", 3, "int"),
        ("str", 3, "int"),
    ],
)
def test_L71_binding_errors(ns, annotation, bad, found):
    space = {"Tensor": Tensor}
    exec(f"def f(x: Tensor, a: {annotation}) -> Tensor: ...", space)
    f = custom_op(f"{ns}::f", space["f"], mutates_args=())
    with pytest.raises(
        RuntimeError, match=rf"(?s){ns}::f.*'a'.*'{found}'.*Position: 1.*\(Tensor x"
    ):
        f(mq.ones(2), bad)


def test_L71_missing_and_extra_arguments(op):
    with pytest.raises(RuntimeError, match=r"missing.*'x'"):
        op()
    with pytest.raises(RuntimeError, match="2 were given"):
        op(mq.ones(1), 2)


def test_L71_what_passes(ns):
    seen = []

    @custom_op(f"{ns}::f", mutates_args=())
    def f(x: Tensor, n: int, s: float, b: bool, sizes: list[int], d: mq.device) -> None:
        seen.append((n, s, b, sizes, d))

    f(mq.ones(1), True, 1, 1, (1, 2), "cpu")
    f(mq.ones(1), mq.ones(()), mq.ones(()), True, [3], mq.device("cpu"))
    assert seen[0] == (1, 1.0, True, [1, 2], mq.device("cpu"))
    assert seen[1][:2] == (1, 1.0)
    assert type(seen[0][1]) is float
    assert type(seen[0][3]) is list


# --- kernels ---------------------------------------------------------------------------------


def test_L72_kernels_of_devices(ns):
    op = custom_op(f"{ns}::f", twice, mutates_args=(), device_types=["cpu", "cuda"])
    assert op.register_kernel("cuda", thrice) is thrice
    assert numbers(op(mq.ones(1))) == [2]
    op.register_kernel("cpu")(thrice)
    assert numbers(op(mq.ones(1))) == [3]


def test_L72_another_thread_may_call_a_kernel_as_soon_as_it_is_there(op, monkeypatch):
    found, register = [], Library.register

    def registered_and_called(library, *args):
        register(library, *args)
        found.append(numbers(op(mq.ones(1))))

    monkeypatch.setattr(Library, "register", registered_and_called)
    op.register_kernel("cpu", thrice)
    assert found == [[3]]


def test_L72_unknown_devices(op):
    with pytest.raises(RuntimeError, match="nodevice"):
        op.register_kernel("nodevice", twice)


def test_L72_a_device_that_is_not_served(ns):
    op = custom_op(f"{ns}::f", twice, mutates_args=(), device_types="cuda")
    with pytest.raises(NotImplementedError, match=f"{ns}::f.*CPU"):
        op(mq.ones(1))


def test_L73_without_tensors_a_device_selects(ns):
    def fac(n: int, *, device: mq.device) -> Tensor:
        return mq.ones(n, device=device)

    op = custom_op(f"{ns}::fac", fac, mutates_args=(), device_types="cpu")
    assert op(3, device="cpu").shape == (3,)
    with pytest.raises(RuntimeError, match=f"(?i){ns}::fac.*cuda"):
        op(3, device="cuda")


def test_L73_without_a_device_parameter(ns):
    def fac(n: int) -> Tensor: ...

    with pytest.raises(ValueError, match="device"):
        custom_op(f"{ns}::fac", fac, mutates_args=(), device_types="cpu")


def test_L74_a_kernel_can_be_switched_off(op):
    op.register_kernel("cpu", thrice)
    x = mq.ones(1)
    with op.set_kernel_enabled("cpu", enabled=False):
        op.register_kernel("cpu", lambda x: x * 5)
        assert numbers(op(x)) == [2]
        with op.set_kernel_enabled("cpu"):
            assert numbers(op(x)) == [5]
        assert numbers(op(x)) == [2]
    assert numbers(op(x)) == [5]


def test_L74_restores_after_an_exception(op):
    op.register_kernel("cpu", thrice)

    def fail():
        with op.set_kernel_enabled("cpu", enabled=False):
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert numbers(op(mq.ones(1))) == [3]


def test_L74_redundant_switches_are_logged(op, caplog):
    with caplog.at_level(logging.WARNING):
        with op.set_kernel_enabled("cuda", enabled=False):
            pass
        op.register_kernel("cpu", thrice)
        with op.set_kernel_enabled("cpu"):
            pass
    assert [r.levelname for r in caplog.records] == ["WARNING", "WARNING"]


# --- aliasing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returns", "body"),
    [
        (Tensor, lambda x: x),
        (Tensor, lambda x: x.view(-1)),
        (tuple[Tensor, Tensor], lambda x: (y := x * 2, y)),
        (list[Tensor], lambda x: [y := x * 2, y.view(-1)]),
        (tuple[Tensor, int], lambda x: (x, 1)),
    ],
)
def test_L75_outputs_are_the_operators_own(ns, returns, body):
    def f(x):
        return body(x)

    f.__annotations__ = {"x": Tensor, "return": returns}
    op = custom_op(f"{ns}::f", f, mutates_args=())
    with pytest.raises(RuntimeError, match=f"{ns}::f.*{f.__module__}"):
        op(mq.ones(2))


def test_L75_empty_and_written_inputs_count(ns):
    def f(x: Tensor, ys: list[Tensor]) -> Tensor:
        return ys[0]

    op = custom_op(f"{ns}::f", f, mutates_args=["ys"])
    with pytest.raises(RuntimeError, match="'ys'"):
        op(mq.ones(2), [mq.ones(0)])


def test_L75_declared_views_are_tracked(ns):
    schema = "(Tensor(a) x) -> Tensor(a)"
    op = custom_op(f"{ns}::f", lambda x: x.view(-1), mutates_args=(), schema=schema)
    assert op(mq.ones(2))._is_view()


def test_L75_library_operators_are_not_checked(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    x = mq.ones(2)
    assert getattr(mq.ops, ns).f(x) is x


# --- in-place and out ------------------------------------------------------------------------


@pytest.fixture
def inplace(ns):
    """An in-place operator that doubles."""

    def ip(x: Tensor) -> Tensor:
        return x.mul_(2)

    return custom_op(f"{ns}::ip", ip, mutates_args=["x"], tags=Tag.inplace)


@pytest.fixture
def out(ns):
    """An operator with two outs."""

    def into(x: Tensor, *, o: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        o.copy_(x)
        p.copy_(x)
        return o, p

    return custom_op(f"{ns}::into", into, mutates_args=["o", "p"], tags=Tag.out)


def test_L76_the_caller_gets_the_same_objects(inplace, out):
    z, o, p = mq.ones(2), mq.zeros(2), mq.zeros(2)
    assert inplace(z) is z
    assert numbers(z) == [2, 2]
    first, second = out(z, o=o, p=p)
    assert first is o
    assert second is p


def test_L76_clones_and_swapped_outs_are_refused(ns):
    def ip(x: Tensor) -> Tensor:
        return x.clone()

    def into(x: Tensor, *, o: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        return p, o

    ip_op = custom_op(f"{ns}::ip", ip, mutates_args=["x"], tags=Tag.inplace)
    into_op = custom_op(f"{ns}::into", into, mutates_args=["o", "p"], tags=Tag.out)
    with pytest.raises(RuntimeError, match=rf"{ns}\.ip.*Tag\.inplace"):
        ip_op(mq.ones(2))
    with pytest.raises(RuntimeError, match=rf"{ns}\.into.*Tag\.out"):
        into_op(mq.ones(2), o=mq.ones(2), p=mq.ones(2))


def test_L76_their_fake_is_known(inplace, out):
    mode = mq.FakeTensorMode()
    z, o, p = (mode.from_tensor(mq.ones(2)) for _ in range(3))
    assert inplace(z) is z
    assert out(z, o=o, p=p)[0] is o


def test_L76_giving_a_fake_warns_and_uses_it(inplace):
    with pytest.warns(UserWarning, match=r"Tag\.inplace"):
        register_fake(inplace, lambda x: x.new_empty(9))
    assert inplace(mq.FakeTensorMode().from_tensor(mq.ones(2))).shape == (9,)


def test_L76_out_takes_no_input_that_requires_grad(out):
    x = mq.ones(2).requires_grad_()
    with pytest.raises(RuntimeError, match="differentiation"):
        out(x, o=mq.ones(2), p=mq.ones(2))
    with mq.no_grad():
        out(x, o=mq.ones(2), p=mq.ones(2))


def test_L76_in_place_results_have_no_derivative(inplace):
    x = mq.ones(2).requires_grad_()
    y = inplace(x * 1)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        y.sum().backward()


# --- fakes -----------------------------------------------------------------------------------


def test_L78_an_opdef_needs_a_fake_on_fakes_only(op):
    op(mq.ones(2))
    for x in (mq.FakeTensorMode().from_tensor(mq.ones(2)), mq.ones(2, device="meta")):
        with pytest.raises(RuntimeError, match=r"CustomOpDef.*register_fake"):
            op(x)


def test_L78_writing_operators_without_returns_need_none(ns):
    def write(x: Tensor) -> None:
        x.zero_()

    def look(x: Tensor) -> None: ...

    fake = mq.FakeTensorMode().from_tensor(mq.ones(2))
    assert custom_op(f"{ns}::w", write, mutates_args=["x"])(fake) is None
    assert fake._version == 1
    with pytest.raises(RuntimeError, match="register_fake"):
        custom_op(f"{ns}::l", look, mutates_args=())(fake)


def test_L81_autograd_is_above_fake(op):
    op.register_fake(lambda x: x.new_empty(x.shape))
    op.register_autograd(lambda ctx, grad: grad * 2)
    x = mq.FakeTensorMode().from_tensor(mq.ones(2).requires_grad_())
    y = op(x)
    assert y.grad_fn is not None
    y.sum().backward()
    assert x.grad.shape == (2,)
    assert isinstance(x.grad, mq.FakeTensor)


def test_L37_destroying_an_opdefs_library_ends_it(ns):
    op = custom_op(f"{ns}::f", twice, mutates_args=())
    op._lib._destroy()
    with pytest.raises(RuntimeError, match="destroyed"):
        op(mq.ones(2))
    Library(ns, "DEF")._destroy()
