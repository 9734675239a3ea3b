"""Conjugation and negation as views: a bit of the key set instead of new values.

`_conj` and `_neg_view` turn a bit; views hand it on. Whatever else meets a tensor with a bit set
comes through the fallbacks at the keys Conjugate and Negative, which compute the values first, so
no kernel knows of bits. A tensor that is written gets its values back through its bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from maquette.aten.common.batching_forms import same_shape
from maquette.aten.elementwise.arithmetic import neg
from maquette.aten.elementwise.pointwise import POINTWISE, Array, elementwise_cost
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.scalar_types import is_complex_type
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey, functionality_bits
from maquette.dispatch.modes import PYTHON
from maquette.dispatch.operator import FALLBACKS, OpOverload, set_fallback
from maquette.dispatch.registry import ops
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.library.arrays import backend_kernel
from maquette.library.page import OperatorPage, define
from maquette.library.variants import check_writable
from maquette.tensor.keys import CONJUGATE, NEGATIVE
from maquette.tensor.sparse import SPARSE_LAYOUTS
from maquette.tensor.tensor import Tensor, alias

_FAKE = DispatchKey.Fake
_LAYOUTS = (
    functionality_bits(DispatchKey.SparseCPU)
    | functionality_bits(DispatchKey.SparseCsrCPU)
    | functionality_bits(DispatchKey.NestedTensorCPU)
)
"""What a call has of another operand's layout, and the values of this one do not."""


# --- turning a bit --------------------------------------------------------------------


def _turning(bit: int, key: DispatchKey) -> Callable[[OpOverload, int], Callable[..., object]]:
    """A kernel factory for a view that turns the lazy bit of its argument on or off."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        make = FALLBACKS[key] if key is _FAKE else backend_kernel
        view = make(op, ks)
        assert view is not None

        def kernel(ks: int, self: Tensor) -> object:
            result = view(ks, self)
            assert isinstance(result, Tensor)
            result._keys ^= bit
            return result

        return kernel

    return factory


def _bit_view(name: str, bit: int) -> OperatorPage:
    """Define the view that turns a bit."""
    op = define(f"aten::{name}(Tensor(a) self) -> Tensor(a)", takes_numbers=name == "_conj")
    op.shape(lambda self: self)
    op.shows_other_values(turns=bit)
    for key in (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta, _FAKE):
        op.op.register(key, Kernel(_turning(bit, key)))
    return op


_conj = _bit_view("_conj", CONJUGATE)
_conj.linear(self=lambda grad: grad.conj())


@_conj.shape
def conj_shape(self: TensorMeta) -> TensorMeta:
    check(
        self.dtype.is_complex,
        lambda: f"_conj is only supported for complex tensors, got {self}; conj() takes real ones",
    )
    return self


_conj.batching(same_shape)


_neg_view = _bit_view("_neg_view", NEGATIVE)
_neg_view.linear(self=lambda grad: -grad)
_neg_view.batching(same_shape)

conj = define("aten::conj(Tensor(a) self) -> Tensor(a)")
conj.describe(
    "The conjugate of a complex tensor, computed when its elements are read; a real one itself."
)


@conj.composite
def conj_composite(self: Tensor) -> Tensor:
    """Sparse tensors are conjugated at once: their values say nothing of what waits."""
    if not self.meta.dtype.is_complex:
        return self
    waits = self.meta.layout not in SPARSE_LAYOUTS
    found: Tensor = _conj(self) if waits else _conj_physical(self)
    return found


resolve_conj = define("aten::resolve_conj(Tensor(a) self) -> Tensor(a)")
resolve_conj.describe("The tensor with a conjugation that waits computed; itself, if none does.")
resolve_conj.composite(lambda self: self.clone() if self.is_conj() else self)
resolve_conj.batching(same_shape)
resolve_neg = define("aten::resolve_neg(Tensor(a) self) -> Tensor(a)")
resolve_neg.describe("The tensor with a negation that waits computed; itself, if none does.")
resolve_neg.composite(lambda self: self.clone() if self.is_neg() else self)
resolve_neg.batching(same_shape)


# --- the values -----------------------------------------------------------------------

_conj_physical = define(
    "aten::_conj_physical(Tensor self) -> Tensor",
    tags=POINTWISE,
    variants=["aten::conj_physical.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"],
)
_conj_physical.shape(lambda self: elementwise([self], self.dtype))
_conj_physical.kernel(lambda xp, self: xp.conj(self))
_conj_physical.exact_out()
_conj_physical.cost(elementwise_cost(1))
_conj_physical.linear(self=lambda grad: grad.conj_physical())
_conj_physical.batching(same_shape)

conj_physical = define(
    "aten::conj_physical(Tensor self) -> Tensor",
    tags=[*POINTWISE, Tag.maybe_aliasing_or_mutating],
)
conj_physical.describe("The conjugate of each element, computed now.")
conj_physical.composite(lambda self: _conj_physical(self) if self.meta.dtype.is_complex else self)

conj_physical_ = define(
    "aten::conj_physical_(Tensor(a!) self) -> Tensor(a!)", tags=[*POINTWISE, Tag.inplace]
)
conj_physical_.node_name("ConjPhysicalBackward1")


@conj_physical_.shape
def conj_physical_in_place_shape(self: TensorMeta) -> TensorMeta:
    check_writable("conj_physical_", self)
    return self


@conj_physical_.kernel
def conj_physical_in_place(xp: ModuleType, self: Array) -> None:
    if is_complex_type(self.dtype):
        self[...] = xp.conj(self)


conj_physical_.derivative(self=lambda grad: grad.conj_physical())


# --- the fallbacks --------------------------------------------------------------------


def _bare(t: Tensor, bit: int) -> Tensor:
    """The same memory without the bit, outside autograd."""
    bare = alias(t)
    bare._keys &= ~bit
    return bare


class _Resolving:
    """The fallback at the key of one bit: ``values`` computes what the bit stands for."""

    def __init__(self, bit: int, values: OpOverload) -> None:
        self.bit = bit
        self.values = values

    def __call__(self, op: OpOverload, ks: int) -> Callable[..., object] | None:
        facts = op.facts
        refusal = facts.conjugate_refusal if self.bit == CONJUGATE else facts.negative_refusal
        if refusal:
            return _refusing(refusal)
        if op.is_view or op.shape_rule is None or Tag.inplace_view in op.tags:
            return None  # views hand the bit on; composites meet it in their parts
        if ks & PYTHON and facts.bits_for_handlers and op is facts.overloads[0]:
            return None
        written = [i for i, a in enumerate(op._schema.arguments) if a.is_write]
        return self._writing(op, written) if written else self._reading(op)

    def _reading(self, op: OpOverload) -> Callable[..., object]:
        def kernel(ks: int, *params: object) -> object:
            below = ks & ~self.bit
            return op.run(below, [self.resolved(p, below) for p in params])

        return kernel

    def _writing(self, op: OpOverload, written: Sequence[int]) -> Callable[..., object]:
        def kernel(ks: int, *params: object) -> object:
            below = ks & ~self.bit
            plain = [self.resolved(p, below) for p in params]
            result = op.run(below, plain)
            for i in written:
                for target, values in _pairs(params[i], plain[i]):
                    if target is not values:
                        self._store(target, values, below)
            return _replaced(result, plain, params)

        return kernel

    def _store(self, target: Tensor, values: Tensor, ks: int) -> None:
        """Write values through a bit: turned once more they are what the memory holds."""
        copy, resize = ops.aten.copy_.default, ops.aten.resize_.default
        assert isinstance(copy, OpOverload)
        assert isinstance(resize, OpOverload)
        if target.meta.shape != values.meta.shape:  # an output that did not fit
            resize.run(ks, (target, values.meta.shape, None))
        if _asks_handlers(ks, target, values):
            copy.run(ks, (target, values, False))
            return
        ks &= ~PYTHON
        copy.run(ks, (_bare(target, self.bit), self.resolved_value(values, ks), False))

    def resolved(self, value: object, ks: int) -> object:
        """An argument with its values computed, where its bit says that they are not."""
        if isinstance(value, Tensor):
            if not value._keys & self.bit:
                return value
            if _asks_handlers(ks, value):
                clone = ops.aten.clone.default
                assert isinstance(clone, OpOverload)
                return clone.run(ks, (value, None))
            return self.resolved_value(_bare(value, self.bit), ks & ~PYTHON)
        if isinstance(value, tuple):
            return tuple([self.resolved(item, ks) for item in value])
        return value

    def resolved_value(self, bare: Tensor, ks: int) -> Tensor:
        """The conjugate or negative of a tensor without the bit."""
        result = self.values.run(ks & (bare._keys | ~_LAYOUTS), (bare,))
        assert isinstance(result, Tensor)
        return result


def _asks_handlers(ks: int, *values: Tensor) -> bool:
    """Whether a call with these tensors alone has a handler: a mode, or the class of one.

    Else its kernel would read their memory with no heed of bits, for ``ks`` has lost the key.
    """
    if not ks & PYTHON:
        return False
    return bool(tls.st.dispatch_modes) or any(v._keys & PYTHON for v in values)


def _refusing(message: str) -> Callable[..., NoReturn]:
    def kernel(ks: int, *params: object) -> NoReturn:
        raise RuntimeError(message)

    return kernel


def _pairs(targets: object, values: object) -> list[tuple[Tensor, Tensor]]:
    """A written argument and what stood for it, lists flattened."""
    if isinstance(targets, Tensor) and isinstance(values, Tensor):
        return [(targets, values)]
    if isinstance(targets, tuple) and isinstance(values, tuple):
        return [pair for t, v in zip(targets, values, strict=True) for pair in _pairs(t, v)]
    return []


def _replaced(result: object, plain: Sequence[object], params: Sequence[object]) -> object:
    """The result with the arguments themselves where those that stood for them are in it."""
    if isinstance(result, (tuple, list)):
        return type(result)([_replaced(r, plain, params) for r in result])
    return next((p for p, q in zip(params, plain, strict=True) if result is q), result)


set_fallback(DispatchKey.Conjugate, _Resolving(CONJUGATE, _conj_physical.op))
set_fallback(DispatchKey.Negative, _Resolving(NEGATIVE, neg.op))
