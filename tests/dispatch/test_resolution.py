"""Kernel tables: which kernel serves a key, and when that is found out (D52-D63)."""

import pytest

import maquette as mq
from maquette.dispatch import (
    DispatchKey,
    DispatchKeySet,
    fallthrough_kernel,
    has_backend_fallback,
    keys,
    keyset_full_after,
    resolve_key,
)
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.operator import set_fallback
from maquette.library import Library

K = DispatchKey
KS = DispatchKeySet
SCHEMA = "f(Tensor x) -> Tensor"


def answer(number):
    return lambda x: mq.tensor(number)


def on(backend):
    """A tensor of a backend, made of one on meta: no kernel will look at it."""
    t = mq.empty(2, device="meta")
    t._keys = KS(backend, f"Autograd{backend}", "ADInplaceOrView").raw_repr()
    return t


# --- the stack of kernels at a key -----------------------------------------------------------


def test_D52_the_newest_kernel_wins_until_withdrawn(x, define):
    op = define("f(Tensor x) -> int", CPU=lambda x: 1)
    withdraw = op.register(K.CPU, Kernel(lambda op, ks: lambda ks, x: 2))
    assert op(x) == 2
    withdraw()
    assert op(x) == 1


def test_D52_fallthrough_skips_its_key(x, define):
    op = define("f(Tensor x) -> int", CPU=lambda x: 1, AutogradCPU=fallthrough_kernel)
    assert op(x.requires_grad_()) == 1
    with pytest.raises(NotImplementedError, match="marker"):
        fallthrough_kernel()


def test_D53_a_fallback_serves_operators_without_kernel(define):
    own = define("own(Tensor x) -> str", PrivateUse1=lambda x: "own")
    other = define("other(Tensor x) -> str")
    library = Library("_", "IMPL")
    library.fallback(lambda op, *args, **kwargs: str(op), "PrivateUse1")
    try:
        assert other(on("PrivateUse1")) == str(other)
        assert own(on("PrivateUse1")) == "own"
    finally:
        library._destroy()
    with pytest.raises(NotImplementedError, match="PrivateUse1"):
        other(on("PrivateUse1"))


def test_D53_there_is_one_fallback_a_key():
    with pytest.raises(RuntimeError, match="Python"):
        set_fallback(K.Python, lambda op, ks: None)


@pytest.mark.parametrize(
    "name",
    [
        "Python",
        "PythonTLSSnapshot",
        "Fake",
        "BackendSelect",
        "ADInplaceOrView",
        "PreDispatch",
        "PythonDispatcher",
        "Tracer",
        "AutocastCPU",
        "AutogradCPU",
        "AutogradOther",
    ],
)
def test_D54_these_keys_have_fallbacks(name):
    assert has_backend_fallback(name)


@pytest.mark.parametrize("name", ["CPU", "CUDA", "SparseCPU", "Undefined"])
def test_D54_backends_have_none(name):
    assert not has_backend_fallback(name)


# --- precedence ------------------------------------------------------------------------------

CIA, CEA = K.CompositeImplicitAutograd, K.CompositeExplicitAutograd
CEANF = K.CompositeExplicitAutogradNonFunctional
CIANT = K.CompositeImplicitAutogradNestedTensor


def with_kernels(define, *at):
    op = define(SCHEMA)
    for key in at:
        op.register(K(key), Kernel(lambda op, ks: None))
    return op


def test_D55_a_kernel_at_the_key_itself_comes_first(define):
    op = with_kernels(define, K.CPU, CIA)
    assert resolve_key(op, K.CPU) is K.CPU
    assert resolve_key(op, "CUDA") is CIA


def test_D56_the_explicit_composites_serve_backends(define):
    op = with_kernels(define, CEANF, CEA)
    assert resolve_key(op, K.CPU) is CEANF
    assert resolve_key(op, K.Undefined) is CEANF
    assert resolve_key(op, K.SparseCPU) is CEA
    assert resolve_key(op, K.XLA) is CEA
    with pytest.raises(NotImplementedError, match="NestedTensorCPU"):
        resolve_key(op, K.NestedTensorCPU)


def test_D57_nested_tensors_have_a_composite_of_their_own(define):
    op = with_kernels(define, CIANT, CIA)
    assert resolve_key(op, K.AutogradNestedTensor) is CIANT
    assert resolve_key(op, K.NestedTensorCUDA) is CIANT
    assert resolve_key(op, K.CPU) is CIA
    assert resolve_key(op, K.Undefined) is CIA


def test_D58_the_implicit_composite_steps_back_where_a_backend_has_a_kernel(define):
    op = with_kernels(define, K.CPU, CIA)
    assert resolve_key(op, K.AutogradCPU) is K.AutogradCPU
    assert resolve_key(op, K.AutogradCUDA) is CIA


def test_D58_a_composite_and_a_backend_of_autogradother_are_ambiguous(define):
    op = with_kernels(define, K.SparseCPU, CIA)
    with pytest.raises(RuntimeError, match="ambiguous autogradother kernel"):
        resolve_key(op, K.AutogradOther)
    assert resolve_key(op, K.AutogradCPU) is CIA


def test_D59_the_composite_beats_autograd_where_no_backend_has_a_kernel(define):
    assert resolve_key(with_kernels(define, K.Autograd, CIA), K.AutogradCPU) is CIA


def test_D59_autograd_serves_every_backend(define):
    op = with_kernels(define, K.Autograd, K.CPU)
    assert resolve_key(op, K.AutogradMeta) is K.Autograd
    assert resolve_key(op, K.AutogradNestedTensor) is K.Autograd


def test_D59_the_batched_decomposition_serves_batched(define):
    op = with_kernels(define, K.FuncTorchBatchedDecomposition)
    assert resolve_key(op, K.FuncTorchBatched) is K.FuncTorchBatchedDecomposition


def test_D60_then_the_fallback_then_an_error(define):
    op = with_kernels(define)
    assert resolve_key(op, K.AutogradCPU) is K.AutogradCPU
    with pytest.raises(NotImplementedError, match=rf"{op.name()}.*CPU"):
        resolve_key(op, K.CPU)


def test_D60_python_overrides_count(define):
    op = with_kernels(define)
    op.py_impl(CEA)(answer(1))
    assert resolve_key(op, K.CPU) is CEA
    with pytest.raises(NotImplementedError):
        op(mq.ones(1))


# --- running ---------------------------------------------------------------------------------


def test_D61_what_is_missing_is_said(define):
    op = define("f(Tensor x) -> Tensor", PrivateUse2=answer(1))
    none = define("none() -> Tensor", PrivateUse2=answer(1))
    with pytest.raises(NotImplementedError, match=rf"{op.name()}.*backend CPU.*PrivateUse2"):
        op(mq.ones(1))
    with pytest.raises(NotImplementedError, match=rf"{op.name()}.*shape rule.*Meta"):
        op(mq.empty(1, device="meta"))
    with pytest.raises(NotImplementedError, match=rf"{none.name()}.*no tensor arguments"):
        none()


def test_D61_fake_asks_for_a_shape_rule(define):
    op = define("f(Tensor x) -> Tensor", CPU=answer(1))
    with mq.FakeTensorMode() as mode, pytest.raises(RuntimeError, match=str(op)):
        op(mode.from_tensor(mq.ones(1)))


def test_D62_a_registration_is_seen_by_the_next_call(x, define, lib):
    op = define("f(Tensor x) -> int", CompositeExplicitAutograd=lambda x: 1)
    assert op(x) == 1
    lib.impl(op, lambda x: 2, "CPU")
    assert op(x) == 2


def test_D62_a_new_fallback_is_seen_by_the_next_call(define):
    op = define("f(Tensor x) -> int", PrivateUse3=lambda x: 1)
    t = on("PrivateUse3")
    t._keys |= KS("TESTING_ONLY_GenericMode").raw_repr()
    with pytest.raises(NotImplementedError):
        op(t)
    library = Library("_", "IMPL")
    library.fallback(fallthrough_kernel, "TESTING_ONLY_GenericMode")
    assert op(t) == 1
    library._destroy()


def test_D62_a_key_set_is_resolved_once(x, define):
    built = []

    def factory(op, ks):
        built.append(ks)
        return lambda ks, x: x

    op = define(SCHEMA)
    op.register(K.CPU, Kernel(factory))
    for _ in range(1000):
        op(x)
    assert len(built) == 1


def test_D63_a_kernel_may_ask_for_the_key_set(x, define, lib):
    seen = []
    op = define("f(Tensor x) -> int", CPU=lambda x: 1)

    def recorded(ks, x):
        seen.append(ks)
        return op.redispatch(ks & keyset_full_after(K.AutogradCPU), x)

    lib.impl(op, recorded, "AutogradCPU", with_keyset=True)
    assert op(x) == 1
    assert seen[0].has(K.AutogradCPU)


# --- the rules against a plain statement of them ---------------------------------------------


def test_D16_the_highest_key_that_is_not_excluded_runs(x, define):
    op = define("f(Tensor x) -> str", CPU=lambda x: "cpu", AutogradCPU=lambda x: "autograd")
    assert op(x) == "autograd"
    with mq.dispatch.AutoDispatchBelowAutograd():
        assert op(x) == "cpu"


def test_D14_the_keys_of_a_plain_tensor(x):
    assert keys(x) == KS("CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU")
    assert keys(mq.ones(2).requires_grad_()) == keys(x)
    with pytest.raises(TypeError, match="tensor"):
        keys(3)


def test_D14_tensors_born_in_inference_mode_lack_autograd():
    with mq.inference_mode():
        assert keys(mq.ones(2)) == KS("CPU", "AutocastCPU")


def test_D14_subclasses_with_a_handler_of_their_own_carry_python(x):
    class Handling(mq.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class Switched(Handling):
        __torch_dispatch__ = mq.dispatch.disabled_torch_dispatch

    python = KS("Python", "PythonTLSSnapshot")
    assert keys(x.as_subclass(Handling)) == keys(x) | python
    assert keys(x.as_subclass(Switched)) == keys(x)
