"""Complex numbers and their parts: views between real and complex, `complex`, `polar`.

Conjugation is in `conjugate.py`, `angle` in `rounding.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from maquette.aten.common.array_libraries import complex_of
from maquette.aten.common.batching_forms import leading_of, same_shape
from maquette.aten.common.element_types import check_no_halves_on_cpu
from maquette.aten.common.formula_helpers import conj, no_slope, real_part, times
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.conjugate import _conj, _neg_view
from maquette.aten.elementwise.pointwise import Array, Kernel, elementwise_cost
from maquette.core.dtype import dtype, float16, float32, float64
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.library.page import OperatorPage, Variant, define, set_shape_rule
from maquette.library.variants import out_shape
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS

_PARTS = (float16, float32, float64)

# --- views ----------------------------------------------------------------------------

view_as_real = define("aten::view_as_real(Tensor(a) self) -> Tensor(a)").refuse_conjugates(
    "view_as_real doesn't work on unresolved conjugated tensors. To resolve the conjugate tensor "
    "so you can view it as real, use self.resolve_conj(); however, be warned that the resulting "
    "tensor will NOT alias the original."
)
view_as_real.describe(
    "A complex tensor seen as pairs of real numbers, in a last dimension of size 2."
)


@view_as_real.shape
def view_as_real_shape(self: TensorMeta) -> TensorMeta:
    check(
        self.dtype.is_complex,
        lambda: f"view_as_real is only supported for complex tensors, got {self}",
    )
    strides = (*(2 * stride for stride in self.strides), 1)
    return TensorMeta.of(
        self.dtype.to_real(), (*self.shape, 2), strides, 2 * self.offset, self.device
    )


view_as_real.linear(self=lambda grad: aten.view_as_complex(grad.contiguous()))
view_as_real.batching(same_shape)
view_as_real.shows_other_values()

view_as_complex = define("aten::view_as_complex(Tensor(a) self) -> Tensor(a)")
view_as_complex.describe(
    "A real tensor whose last dimension has size 2 seen as complex numbers, a dimension less."
)
view_as_complex.autocast(cpu="float32")


@view_as_complex.shape
def view_as_complex_shape(self: TensorMeta) -> TensorMeta:
    check(
        self.dtype in _PARTS,
        lambda: (
            f"view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {self.dtype.scalar_name}"
        ),
    )
    check(self.ndim > 0, lambda: "Input tensor must have one or more dimensions")
    check(
        self.shape[-1] == 2,
        lambda: f"Tensor must have a last dimension of size 2, got {self}",
    )
    check(
        self.strides[-1] == 1,
        lambda: f"Tensor must have a last dimension with stride 1, got strides {self.strides}",
    )
    check(
        # A dimension of size 1 has no second element that its stride would lead to.
        all(stride % 2 == 0 or n == 1 for stride, n in zip(self.strides[:-1], self.shape)),
        lambda: (
            f"Tensor must have a stride divisible by 2 for all but last dimension, got strides "
            f"{self.strides}"
        ),
    )
    check(
        self.offset % 2 == 0,
        lambda: f"Tensor must have a storage_offset divisible by 2, got {self.offset}",
    )
    strides = tuple(stride // 2 for stride in self.strides[:-1])
    return TensorMeta.of(
        self.dtype.to_complex(), self.shape[:-1], strides, self.offset // 2, self.device
    )


view_as_complex.linear(self=lambda grad: aten.view_as_real(grad.resolve_conj()))
view_as_complex.batching(leading_of(lambda *args: 1))
view_as_complex.shows_other_values()

real = define("aten::real(Tensor(a) self) -> Tensor(a)")
real.describe("The real part of a complex tensor, of its shape; a real tensor itself.")


@real.composite
def real_view(self: Tensor) -> Tensor:
    if not self.meta.dtype.is_complex:
        return self
    return view_as_real(_conj(self) if self.is_conj() else self).select(-1, 0)


imag = define("aten::imag(Tensor(a) self) -> Tensor(a)")
imag.describe("The imaginary part of a complex tensor, of its shape; real tensors are refused.")


@imag.composite
def imag_view(self: Tensor) -> Tensor:
    check(
        self.meta.dtype.is_complex,
        lambda: f"imag is not implemented for tensors with non-complex dtypes, got {self.meta}",
    )
    if self.is_conj():
        return _neg_view(view_as_real(_conj(self))).select(-1, 1)
    return view_as_real(self).select(-1, 1)


# --- from parts -----------------------------------------------------------------------


def check_parts(first: TensorMeta, second: TensorMeta) -> dtype:
    """The complex type of two parts; RuntimeError unless they are floats of one type."""
    check(
        first.dtype in _PARTS and second.dtype in _PARTS,
        lambda: (
            f"Expected both inputs to be Half, Float or Double tensors but got "
            f"{first.dtype.scalar_name} and {second.dtype.scalar_name}"
        ),
    )
    check(
        first.dtype is second.dtype,
        lambda: (
            f"Expected object of scalar type {first.dtype.scalar_name} but got scalar type "
            f"{second.dtype.scalar_name} for second argument"
        ),
    )
    return first.dtype.to_complex()


def _from_parts(name: str, first: str, second: str, kernel: Kernel) -> OperatorPage:
    op = define(f"aten::{name}(Tensor {first}, Tensor {second}) -> Tensor", variants=[Variant.OUT])

    @op.shape
    def parts_shape(first: TensorMeta, second: TensorMeta) -> TensorMeta:
        kind = check_parts(first, second)
        if name == "polar":
            check_no_halves_on_cpu("polar_cpu", first)
        return elementwise((first, second), kind, op_name=name)

    op.kernel(kernel)
    op.cost(elementwise_cost(1))
    for variant in op.variants:
        set_shape_rule(variant, _exactly(out_shape(op.op, 1)))
    return op


def _exactly(rule: Callable[..., object]) -> Callable[..., object]:
    """The rule of an ``out=`` form whose target must have the very type of the result."""

    def exact_shape(first: TensorMeta, second: TensorMeta, out: TensorMeta) -> object:
        kind = check_parts(first, second)
        check(
            out.dtype is kind,
            lambda: (
                f"Expected object of scalar type {kind.scalar_name} but got scalar type "
                f"{out.dtype.scalar_name} for argument 'out'"
            ),
        )
        return rule(first, second, out)

    return exact_shape


def joined(xp: ModuleType, real: Array, imag: Array) -> Array:
    """The complex array of two parts; a sum with ``1j * imag`` would make NaN of infinite parts."""
    real, imag = xp.broadcast_arrays(real, imag)
    return complex_of(xp, real, imag)


def polar_kernel(xp: ModuleType, abs: Array, angle: Array) -> Array:
    return joined(xp, abs * xp.cos(angle), abs * xp.sin(angle))


def imaginary_part(grad: Tensor) -> Tensor:
    """The gradient by the imaginary part; of a real gradient, 0."""
    return aten.imag(grad) if grad.meta.dtype.is_complex else no_slope(grad)


complex = _from_parts("complex", "real", "imag", joined)
complex.describe(
    "The complex numbers of two tensors of real and imaginary parts, which have one dtype."
)
complex.linear(real=lambda grad: real_part(grad), imag=lambda grad: imaginary_part(grad))
complex.batching(BROADCASTS)
polar = _from_parts("polar", "abs", "angle", polar_kernel)
polar.describe("The complex numbers of magnitudes and angles in radians.")
polar.autocast(cpu="float32")


@polar.derivative("abs", "angle")
def polar_grad(grad: Tensor, result: Tensor) -> tuple[Tensor, Tensor]:
    conjugate = conj(grad)
    towards = real_part(conjugate * aten.sgn(result))
    around = real_part(conjugate * times(result, 1j))
    return towards, around


polar.batching(BROADCASTS)
