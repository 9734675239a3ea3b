"""`OperatorBase`: the tables of Python overrides and when they act (D64-D68)."""

import pytest

import maquette as mq
from maquette.dispatch import (
    DispatchKey,
    DispatchKeySet,
    OperatorBase,
    TorchDispatchMode,
    TransformType,
    enable_python_dispatcher,
    no_python_dispatcher,
)

K = DispatchKey
KS = DispatchKeySet


class Named(OperatorBase):
    def name(self):
        return "test::named"


class Mode(TorchDispatchMode):
    pass


def function(*args, **kwargs):
    return "python"


@pytest.fixture
def op(define):
    return define("f(Tensor x) -> str", CPU=lambda x: "registered")


def test_D64_a_fresh_operator_has_empty_tables():
    op = Named()
    assert (op.py_kernels, op.python_key_table, op.functorch_table, op._dispatch_cache) == (
        {},
        {},
        {},
        {},
    )


def test_D64_name_and_call_are_abstract():
    with pytest.raises(NotImplementedError):
        OperatorBase().name()
    with pytest.raises(NotImplementedError):
        OperatorBase()()


@pytest.mark.parametrize(
    "kind, table",
    [
        (K.CPU, "py_kernels"),
        (K.CompositeImplicitAutograd, "py_kernels"),
        (Mode, "python_key_table"),
        (mq.Tensor, "python_key_table"),
        (TransformType.Vmap, "functorch_table"),
    ],
)
def test_D65_the_kind_chooses_the_table(kind, table):
    op = Named()
    assert op.py_impl(kind)(function) is function
    assert getattr(op, table) == {kind: function}


def test_D65_py_impl_clears_the_cache_but_for_transforms(op):
    op._get_dispatch(K.CPU)
    op.py_impl(TransformType.Vmap)(function)
    assert op._dispatch_cache
    op.py_impl(Mode)(function)
    assert not op._dispatch_cache


def test_D66_a_key_twice_is_an_error():
    op = Named()
    op.py_impl(K.CPU)(function)
    with pytest.raises(RuntimeError, match=r"test::named.*CPU"):
        op.py_impl(K.CPU)(function)


@pytest.mark.parametrize("kind, named", [(Mode, "Mode"), (TransformType.Grad, "Grad")])
def test_D66_a_class_or_transform_twice_is_an_error(kind, named):
    op = Named()
    op.py_impl(kind)(function)
    with pytest.raises(AssertionError, match=named):
        op.py_impl(kind)(function)


def test_D66_python_itself_and_other_types_are_refused():
    with pytest.raises(AssertionError, match="for a mode"):
        Named().py_impl(K.Python)(function)
    with pytest.raises(AssertionError, match="str"):
        Named().py_impl("CPU")(function)
    with pytest.raises(AssertionError, match="type"):
        Named().py_impl(int)(function)


def test_D67_overrides_act_under_the_python_dispatcher_only(op, x):
    op.py_impl(K.CPU)(function)
    assert op(x) == "registered"
    with enable_python_dispatcher():
        assert op(x) == "python"
        with no_python_dispatcher():
            assert op(x) == "registered"
        assert op(x) == "python"
    assert op(x) == "registered"


def test_D67_overrides_of_a_built_in_operator(x):
    cos = mq.ops.aten.cos.default
    cos.py_impl(K.CPU)(lambda x: mq.zeros(1))
    try:
        assert cos(x).shape == (2, 3)
        with enable_python_dispatcher():
            assert cos(x).shape == (1,)
    finally:
        del cos.py_kernels[K.CPU]
        cos.invalidate()
    assert cos(x).shape == (2, 3)


def test_D67_an_override_below_autograd_is_reached_through_it():
    y = mq.ones(2).requires_grad_()
    mul = mq.ops.aten.mul.Tensor
    mul.py_impl(K.CPU)(lambda a, b: mq.zeros(2))
    try:
        with enable_python_dispatcher():
            out = mul(y, y)
    finally:
        del mul.py_kernels[K.CPU]
        mul.invalidate()
    assert out.requires_grad
    assert out.tolist() == [0.0, 0.0]


def test_D67_an_override_gets_the_normalised_call_and_its_result_is_checked(define, x):
    op = define("f(Tensor x, int a=1, *, int[] b=[1]) -> int", CPU=lambda x: 0)
    calls = []
    op.py_impl(K.CPU)(lambda *args, **kwargs: calls.append((args, kwargs)))
    with enable_python_dispatcher(), pytest.raises(RuntimeError, match="must return"):
        op(x=x, a=1, b=(2,))
    assert calls == [((x,), {"b": [2]})]


def test_D68_has_kernel_is_exact(define):
    op = define("f(Tensor x) -> Tensor", CompositeImplicitAutograd=lambda x: x)
    assert not op.has_kernel_for_dispatch_key(K.CPU)
    assert not op.has_kernel_for_any_dispatch_key(KS(K.CPU))
    assert op.has_kernel_for_dispatch_key(K.CompositeImplicitAutograd)


def test_D68_overloads_see_registered_kernels_and_overrides(op):
    assert op.has_kernel_for_any_dispatch_key(KS("CPU", "CUDA"))
    assert not op.has_kernel_for_any_dispatch_key(KS("CUDA"))
    op.py_impl(K.CUDA)(function)
    assert op.has_kernel_for_dispatch_key(K.CUDA)
    assert op.has_kernel_for_any_dispatch_key(KS("CUDA"))
