"""What elementwise operators share: factories of pages, and promotion on both sides of a page.

Shape rules promote metas, kernels promote arrays; both ask `core.promotion`, so they agree. The
operators themselves stand in `arithmetic.py`, `transcendental.py`, `comparison.py` and
`activations.py`. The one idea: a kernel gets its operands in the type that PyTorch computes in (bfloat16 and
float16 in float32) and never thinks of types again.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maquette.autograd.formulas import Derivatives
from maquette.core.dtype import (
    bool_,
    dtype,
    finfo,
    from_numpy_dtype,
    get_default_dtype,
    iinfo,
    promote_types,
    result_type_of,
)
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, OperatorPage, Variant, define

# To a type checker every array holds floats: what it must know is that they can be reckoned with.
Array: TypeAlias = npt.NDArray[np.float64]
Number = bool | int | float | complex
Operand = TensorMeta | Number
Kernel = Callable[..., Array]

BOOLS, INTS, FLOATS, COMPLEX = 0, 1, 2, 3
REALS = frozenset((INTS, FLOATS))
NUMERIC = frozenset((INTS, FLOATS, COMPLEX))
FLOATING = frozenset((FLOATS, COMPLEX))
BITS = frozenset((BOOLS, INTS))
ORDERED = frozenset((BOOLS, INTS, FLOATS))
ANY = frozenset((BOOLS, INTS, FLOATS, COMPLEX))
REAL_FLOATS = frozenset((FLOATS,))

POINTWISE = (Tag.pointwise,)
CORE_POINTWISE = (Tag.core, Tag.pointwise)
BOTH = (Variant.INPLACE, Variant.OUT)


# --- result types ---------------------------------------------------------------------


def same(kind: dtype) -> dtype:
    """The result type of an operator that keeps its operand's."""
    return kind


def floating(kind: dtype) -> dtype:
    """The result type of a function of real numbers: integers and bools become the default dtype."""
    return kind if kind.category >= FLOATS else get_default_dtype()


def real(kind: dtype) -> dtype:
    """The result type of a magnitude: a complex operand gives its parts' type."""
    return kind.to_real()


def boolean(kind: dtype) -> dtype:
    """The result type of a predicate."""
    return bool_


def check_category(name: str, kind: dtype, takes: frozenset[int]) -> None:
    """Refuse a type that an operator has no kernel for, in PyTorch's words."""
    check_not_implemented(
        kind.category in takes,
        lambda: f"\"{name}_cpu\" not implemented for '{kind.scalar_name}'",
    )


_C_NAMES = {
    "int32": "int",
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def check_fits(value: Number, kind: dtype) -> None:
    """Refuse a number that a type cannot hold; a negative one may wrap around in an unsigned type."""
    check(
        _fits(value, kind),
        lambda: (
            f"value cannot be converted to type {_C_NAMES.get(kind.name, kind.name + '_t')} "
            f"without overflow"
        ),
    )


def _fits(value: Number, kind: dtype) -> bool:
    if isinstance(value, complex):
        if kind.category == COMPLEX:
            return _fits(value.real, kind.to_real()) and _fits(value.imag, kind.to_real())
        return value.imag == 0 and _fits(value.real, kind)
    if kind.category == BOOLS or not isinstance(value, (bool, int, float)):
        return True
    if kind.category >= FLOATS:
        return not math.isfinite(value) or abs(value) <= finfo(kind.to_real()).max
    limits = iinfo(kind)
    if isinstance(value, int) and not kind.is_signed:
        return abs(value) <= limits.max
    return math.isfinite(value) and limits.min <= value <= limits.max


def common_type(operands: Iterable[Operand], *, floats: bool = False) -> dtype:
    """The type that an elementwise operator computes in; ``floats``: never an integer type."""
    kind = result_type_of(operands)
    return floating(kind) if floats else kind


# --- operands of kernels --------------------------------------------------------------

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_F16 = np.dtype(np.float16)


@cache
def _kind_of(numpy_dtype: np.dtype[np.generic]) -> dtype:
    return from_numpy_dtype(numpy_dtype)


@cache
def _meta_of(numpy_dtype: np.dtype[np.generic], has_dims: bool) -> TensorMeta:
    """What promotion asks of an array: its type, and whether it has dimensions."""
    return TensorMeta.of(_kind_of(numpy_dtype), (1,) if has_dims else ())


def _operand(value: Array | Number) -> Operand:
    if isinstance(value, bool | int | float | complex):
        return value
    return _meta_of(value.dtype, bool(value.ndim))


@cache
def wide_type(kind: dtype) -> np.dtype[np.generic]:
    """NumPy's type for computing with ``kind``: float32 for floats of fewer bits."""
    if kind.category == FLOATS and kind.itemsize < 4:
        return _F32
    return kind.numpy


def widened(array: Array) -> Array:
    """The array in the type a function of real or complex numbers is computed in."""
    given = array.dtype
    if given is _F32 or given is _F64:
        return array
    wide = wide_type(floating(_kind_of(given)))
    return array if given is wide else array.astype(wide)


def computed(array: Array) -> Array:
    """The array in the type that arithmetic on it is done in: floats of few bits as float32."""
    given = array.dtype
    if given is _F32 or given is _F64:
        return array
    wide = wide_type(_kind_of(given))
    return array if given is wide else array.astype(wide)


def promoted(xp: ModuleType, *operands: Array | Number, floats: bool = False) -> Sequence[Array]:
    """Arrays and numbers in the one type that PyTorch computes in."""
    wide = wide_type(common_type([_operand(o) for o in operands], floats=floats))
    return [cast(xp, o, wide) for o in operands]


def direct(act: Callable[[Array, Array], Array], *, floats: bool = False) -> Kernel:
    """The kernel of one of Python's operators, which arrays of one type need no promotion for.

    floats: integers are promoted to the default dtype.
    """

    def kernel(xp: ModuleType, self: Array, other: Array) -> Array:
        kind = other.__class__
        try:
            given = self.dtype
            if kind is float or kind is int:
                if given is _F32 or given is _F64:
                    return act(self, other)
            elif given is other.dtype and (not floats or given.kind in "fc"):
                return act(self, other)
        except AttributeError:  # another number than a float or int, or one on the left
            pass
        a, b = promoted(xp, self, other, floats=floats)
        return act(a, b)

    return kernel


def cast(xp: ModuleType, value: Array | Number, wanted: np.dtype[np.generic]) -> Array:
    """A value in a type, integers wrapping as PyTorch's do; a number becomes a 0-dim array."""
    if isinstance(value, bool | int | float | complex):
        numbers: Array = xp.asarray(_wrapped(value, wanted))
        return numbers
    return value if value.dtype is wanted else value.astype(wanted)


def _wrapped(value: Number, wanted: np.dtype[np.generic]) -> Array:
    if isinstance(value, complex) and wanted.kind != "c":
        value = value.real
    if wanted.kind in "iu" and isinstance(value, int):
        # NumPy refuses integers out of range, PyTorch takes them modulo two to the bits.
        value = int(value) & ((1 << (8 * wanted.itemsize)) - 1)
        return np.array(value, f"u{wanted.itemsize}").view(wanted)
    return np.asarray(value).astype(wanted)


def array_type(array: Array) -> dtype:
    """The dtype of a kernel's array."""
    return _kind_of(array.dtype)


@cache
def special(xp: ModuleType) -> ModuleType:
    """The special functions (erf, gamma ...) that go with an array namespace."""
    root = xp.__name__.partition(".")[0]
    home = {"numpy": "scipy.special", "cupy": "cupyx.scipy.special", "jax": "jax.scipy.special"}
    check(
        root in home,
        lambda: f"no special functions are known for arrays of {root}; known: {', '.join(home)}",
    )
    return importlib.import_module(home[root])


# --- factories ------------------------------------------------------------------------


def unary(
    name: str,
    function: Kernel,
    *,
    result: Callable[[dtype], dtype] = floating,
    takes: frozenset[int] = ANY,
    label: str = "",
    argument: str = "self",
    more: str = "",
    overload: str = "",
    tags: Iterable[Tag] = POINTWISE,
    variants: Iterable[Variant | str] = BOTH,
    flops: int = 1,
) -> OperatorPage:
    """Define an elementwise function of one tensor, with its in-place and ``out=`` forms.

    function: ``function(xp, array, *more)``; result: the result's type by the operand's; takes:
    categories of the type it computes in; label: the operator's name in refusals; argument: the
    tensor's name; more: further parameters of the schema; flops: per element.
    """
    schema = (
        f"aten::{name}{overload and '.' + overload}(Tensor {argument}{more and ', ' + more}) -> Tensor"
    )
    op = define(schema, tags=tags, variants=variants)
    computes = floating if result is floating else same

    def shape(self: TensorMeta, *rest: object) -> TensorMeta:
        check_category(label or name, computes(self.dtype), takes)
        return elementwise([self], result(self.dtype), common_dtype=computes(self.dtype))

    prepare = widened if result is floating else computed

    def kernel(xp: ModuleType, self: Array, *rest: object) -> Array:
        return function(xp, prepare(self), *rest)

    op.shape(_named(shape, name, "shape"))
    op.kernel(_named(kernel, name, "kernel"))
    op.cost(elementwise_cost(flops))
    return op


def binary(
    name: str,
    function: Kernel,
    *,
    result: Callable[[dtype], dtype] = same,
    floats: bool = False,
    takes: frozenset[int] = ANY,
    label: str = "",
    arguments: str = "Tensor self, Tensor other",
    overload: str = "",
    tags: Iterable[Tag] = POINTWISE,
    variants: Iterable[Variant | str] = BOTH,
    flops: int = 1,
) -> OperatorPage:
    """Define an elementwise function of two operands, tensors or numbers.

    function: ``function(xp, a, b, *rest)`` on arrays of the common type; floats: integers are
    promoted to the default dtype; result: the result's type by the common type; arguments: of the
    schema, the operands first. The rest as for `unary`.
    """
    op = define(
        f"aten::{name}{overload and '.' + overload}({arguments}) -> Tensor",
        tags=tags,
        variants=variants,
    )

    def shape(self: Operand, other: Operand, *rest: object) -> TensorMeta:
        common = common_type((self, other), floats=floats)
        check_category(label or name, common, takes)
        return elementwise((self, other), result(common), common_dtype=common, op_name=name)

    def kernel(xp: ModuleType, self: Array, other: Array, *rest: object) -> Array:
        a, b = promoted(xp, self, other, floats=floats)
        return function(xp, a, b, *rest)

    op.shape(_named(shape, name, "shape"))
    op.kernel(_named(kernel, name, "kernel"))
    op.cost(elementwise_cost(flops))
    return op


def backward(
    name: str,
    kernel: Kernel,
    *,
    saved: str = "self",
    more: str = "",
    takes: frozenset[int] = REAL_FLOATS,
    grad: str = "grad_output",
    tags: Iterable[Tag] = POINTWISE,
) -> OperatorPage:
    """Define an operator that ends in ``_backward``: of a gradient and one saved tensor.

    kernel: ``kernel(xp, grad, saved, *more)`` on arrays of one type; more: further parameters of
    the schema, with a leading comma.
    """
    arguments = f"Tensor {grad}, Tensor {saved}{more}"
    return binary(name, kernel, takes=takes, arguments=arguments, tags=tags, variants=())


def in_place_derivative(page: OperatorPage, formula: Callable[..., object]) -> None:
    """Give the in-place form of a page a formula of its own: of ``result``, which it does not save."""
    written = next(op for op in page.variants if op._opname.endswith("_"))
    written.derivatives = Derivatives()
    written.derivatives.add(("self",), formula, joint=False)


def ternary_shape(
    name: str, operands: Sequence[Operand], *, takes: frozenset[int] = NUMERIC
) -> TensorMeta:
    """The result of an operator that promotes all its operands to a common type and keeps it."""
    common = common_type(operands)
    check_category(name, common, takes)
    return elementwise(operands, common, common_dtype=common, op_name=name)


def elementwise_cost(flops: int) -> Callable[..., Cost]:
    """The cost rule of ``flops`` operations an element of the result."""

    def cost(*metas: object) -> Cost:
        out = metas[-1]
        if isinstance(out, (tuple, list)):
            out = out[0]
        return Cost(flops=flops * out.numel if isinstance(out, TensorMeta) else 0)

    return cost


def _named(function: Callable[..., object], name: str, role: str) -> Callable[..., object]:
    """Tracebacks and profiles name the operator, as for rules written one by one."""
    function.__name__ = function.__qualname__ = f"{name}_{role}"
    return function


__all__ = [
    "ANY", "BITS", "BOTH", "CORE_POINTWISE", "FLOATING", "NUMERIC", "ORDERED", "POINTWISE",
    "REALS", "REAL_FLOATS", "Array", "Number", "Operand", "array_type", "backward", "binary", "boolean",
    "cast", "check_category", "check_fits", "common_type", "computed", "direct", "elementwise_cost", "floating",
    "promote_types", "promoted", "real", "same", "special", "ternary_shape", "unary",
    "wide_type", "widened",
]  # fmt: skip
