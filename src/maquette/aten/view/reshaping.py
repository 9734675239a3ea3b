"""Views defined by other views: reshape, flatten, movedim, matrix transposes, and others."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod

from maquette.aten.view.copies import clone
from maquette.aten.view.views import _reshape_alias, _unsafe_view, expand, slice, view
from maquette.core.broadcast import broadcast_shapes, wrap_dim
from maquette.core.errors import check
from maquette.core.layout import contiguous_format
from maquette.core.meta import TensorMeta
from maquette.core.remembered import remembered
from maquette.core.views import view_shape_infer, view_strides
from maquette.core.warned import warn_once
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]
_view, _strided_alias = view.entry, _reshape_alias.entry  # 0.05 us less a call (timeit)

reshape = define("aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)")
reshape.describe(
    "The tensor with another shape of as many elements, one size of which may be -1; a view "
    "where strides allow."
)
_reshape = reshape.entry


@reshape.composite
def reshape_composite(self: Tensor, shape: Ints) -> object:
    """A view where strides allow it, else a contiguous copy in the shape (T20)."""
    meta = self.meta
    if meta.is_contiguous:
        return _view(self, shape)
    wanted, strides = _reshaped(meta, shape)
    if strides is not None:
        # Modes and subclasses are shown a plain view, as in PyTorch.
        if self.__class__ is Tensor and not tls.st.dispatch_modes:
            return _strided_alias(self, wanted, strides)
        return _view(self, wanted)
    return _unsafe_view(clone(self, memory_format=contiguous_format), wanted)


# Remembered, for the arithmetic on strides costs more than the views (4 us of 6 us a call).
@remembered
def _reshaped(meta: TensorMeta, shape: Ints) -> tuple[Ints, Ints | None]:
    """The shape with -1 resolved, and the strides of a view that has it, if one can."""
    wanted = view_shape_infer(shape, meta.numel, meta.shape)
    return wanted, view_strides(meta.shape, meta.strides, wanted)


def _composite(schema: str, *, tags: tuple[Tag, ...] = ()) -> Callable[..., OperatorPage]:
    """Open a page that is nothing but a definition by other operators."""

    def with_definition(function: Callable[..., object]) -> OperatorPage:
        page = define(schema, tags=tags)
        page.composite(function)
        return page

    return with_definition


view_as = _composite("aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)")(
    lambda self, other: self.view(other.meta.shape)
)
view_as.describe("The tensor seen with the shape of `other`: a view.")
reshape_as = _composite("aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)")(
    lambda self, other: self.reshape(other.meta.shape)
)
reshape_as.describe("The tensor with the shape of `other`; a view where strides allow.")
expand_as = _composite("aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)")(
    lambda self, other: self.expand(other.meta.shape)
)
expand_as.describe("The tensor expanded to the shape of `other`: a view.")
broadcast_to = _composite("aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)")(
    lambda self, size: self.expand(size)
)
broadcast_to.describe("The tensor expanded to a shape that it broadcasts to: a view.")
ravel = _composite("aten::ravel(Tensor(a) self) -> Tensor(a)")(
    lambda self: self.contiguous().view((-1,))
)
ravel.describe("The tensor as a contiguous vector; a view where it is contiguous.")

broadcast_tensors = define("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]")
broadcast_tensors.describe("The tensors expanded to the shape that all broadcast to: views.")


@broadcast_tensors.composite
def broadcast_tensors_composite(tensors: tuple[Tensor, ...]) -> list[object]:
    shape = broadcast_shapes(*[t.meta.shape for t in tensors])
    return [t if t.meta.shape == shape else expand(t, shape) for t in tensors]


flatten = define(
    "aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"
)
flatten.describe(
    "The tensor with dimensions from `start_dim` to `end_dim` made one; a view where strides allow."
)


@flatten.composite
def flatten_composite(self: Tensor, start_dim: int, end_dim: int) -> object:
    shape = _flat(self.meta.shape, start_dim, end_dim)
    return self if shape is None else _reshape(self, shape)


@remembered
def _flat(shape: Ints, start_dim: int, end_dim: int) -> Ints | None:
    """The shape with some dimensions made one; None if it is what it was."""
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    check(start <= end, lambda: "flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return (1,)
    if start == end:
        return None
    return (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])


unflatten = define("aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)")
unflatten.describe(
    "The tensor with `dim` made dimensions of `sizes`, one of which may be -1: a view."
)


@unflatten.composite
def unflatten_composite(self: Tensor, dim: int, sizes: Ints) -> object:
    return _view(self, _unflattened(self.meta.shape, dim, sizes))


@remembered
def _unflattened(shape: Ints, dim: int, sizes: Ints) -> Ints:
    """The shape with one dimension made several; RuntimeError where they are not of its size."""
    axis = wrap_dim(dim, len(shape))
    check(len(sizes) > 0, lambda: "unflatten: sizes must be non-empty")
    check(len(shape) > 0, lambda: "unflatten: a 0-dim tensor has no dimension to make several of")
    try:
        inner = view_shape_infer(sizes, shape[axis])
    except RuntimeError as error:
        if "is invalid for input" not in str(error):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} "
            f"({shape[axis]}) in the input tensor"
        ) from None
    return (*shape[:axis], *inner, *shape[axis + 1 :])


# --- other orders of dimensions ------------------------------------------------------


def _moved(self: Tensor, source: Ints, destination: Ints) -> object:
    ndim = self.meta.ndim
    check(
        len(source) == len(destination),
        lambda: (
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should "
            f"contain the same number of dims as destination ({list(destination)} dims)"
        ),
    )
    from_dims = _distinct("source", source, ndim)
    to_dims = _distinct("destination", destination, ndim)
    if not ndim:
        return self.permute(())
    rest = iter([d for d in range(ndim) if d not in from_dims])
    placed = dict(zip(to_dims, from_dims, strict=True))
    return self.permute(tuple(placed[d] if d in placed else next(rest) for d in range(ndim)))


def _distinct(name: str, dims: Ints, ndim: int) -> Ints:
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    check(
        len(set(wrapped)) == len(wrapped),
        lambda: f"movedim: repeated dim in `{name}` ({list(dims)})",
    )
    return wrapped


for _name in ("movedim", "moveaxis"):
    _composite(
        f"aten::{_name}.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"
    )(_moved)
    _composite(f"aten::{_name}.int(Tensor(a) self, int source, int destination) -> Tensor(a)")(
        lambda self, source, destination: _moved(self, (source,), (destination,))
    )
describe("movedim", "The tensor with dimensions moved from `source` to `destination`: a view.")
describe("moveaxis", "The tensor with dimensions moved from `source` to `destination`: a view.")

for _name, _dims in (("swapaxes", "axis"), ("swapdims", "dim")):
    _composite(f"aten::{_name}(Tensor(a) self, int {_dims}0, int {_dims}1) -> Tensor(a)")(
        lambda self, first, second: self.transpose(first, second)
    )
    _composite(
        f"aten::{_name}_(Tensor(a!) self, int {_dims}0, int {_dims}1) -> Tensor(a!)",
        tags=(Tag.inplace, Tag.inplace_view),
    )(lambda self, first, second: self.transpose_(first, second))
describe("swapdims", "The tensor with two dimensions exchanged: a view.")
describe("swapaxes", "The tensor with two dimensions exchanged: a view.")


def _numpy_transpose(self: Tensor) -> object:
    return self.permute(tuple(reversed(range(self.meta.ndim))))


def _matrix_transpose(self: Tensor) -> object:
    _check_matrices("mT", self.meta)
    return self.transpose(-2, -1) if self.meta.ndim else self


def _check_matrices(name: str, self: TensorMeta) -> None:
    """Refuse vectors; a 0-dim tensor counts as a matrix that is its own transpose."""
    check(
        self.ndim != 1,
        lambda: (
            f"tensor.{name} is only supported on matrices or batches of matrices. Got "
            f"{self.ndim}-D tensor."
        ),
    )


def _conjugate_transpose(name: str) -> Callable[[Tensor], object]:
    """The definition of the operator that refusals call ``tensor.<name>``."""

    def conjugate_transpose(self: Tensor) -> object:
        _check_matrices(name, self.meta)
        swapped = self.transpose(-2, -1) if self.meta.ndim else self
        return swapped.conj() if self.meta.dtype.is_complex else swapped

    return conjugate_transpose


def _matrix_conjugate_transpose(self: Tensor) -> object:
    check(
        self.meta.ndim in (0, 2),
        lambda: (
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.meta.ndim}-D "
            f"tensor. For batches of matrices, consider using tensor.mH"
        ),
    )
    return _conjugate_transpose("H")(self)


def _reversed_dimensions(self: Tensor) -> object:
    if self.meta.ndim == 0:
        warn_once(
            "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases."
        )
    elif self.meta.ndim != 2:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor."
        )
    return _numpy_transpose(self)


numpy_T = _composite("aten::numpy_T(Tensor(a) self) -> Tensor(a)")(_reversed_dimensions)
numpy_T.describe("The tensor with its dimensions in reverse order: a view.")
mT = _composite("aten::mT(Tensor(a) self) -> Tensor(a)")(_matrix_transpose)
mT.describe("Matrices transposed: a view.")
mH = _composite("aten::mH(Tensor(a) self) -> Tensor(a)")(_conjugate_transpose("mH"))
mH.describe("Matrices transposed and conjugated: a view.")
adjoint = _composite("aten::adjoint(Tensor(a) self) -> Tensor(a)")(
    _conjugate_transpose("adjoint()")
)
adjoint.describe("Matrices transposed and conjugated: a view.")
matrix_H = _composite("aten::matrix_H(Tensor(a) self) -> Tensor(a)")(_matrix_conjugate_transpose)
matrix_H.describe("A matrix transposed and conjugated: a view.")

# --- more dimensions -----------------------------------------------------------------


def _atleast_1d(self: Tensor) -> object:
    return self.reshape((1,)) if self.meta.ndim == 0 else self


def _atleast_2d(self: Tensor) -> object:
    if self.meta.ndim == 0:
        return self.reshape((1, 1))
    return self.unsqueeze(0) if self.meta.ndim == 1 else self


def _atleast_3d(self: Tensor) -> object:
    if self.meta.ndim == 0:
        return self.reshape((1, 1, 1))
    if self.meta.ndim == 1:
        return self.unsqueeze(0).unsqueeze(-1)
    return self.unsqueeze(-1) if self.meta.ndim == 2 else self


for _count, _function in ((1, _atleast_1d), (2, _atleast_2d), (3, _atleast_3d)):
    _composite(
        f"aten::atleast_{_count}d(Tensor self) -> Tensor", tags=(Tag.maybe_aliasing_or_mutating,)
    )(_function)
    _composite(f"aten::atleast_{_count}d.Sequence(Tensor[] tensors) -> Tensor[]")(
        lambda tensors, function=_function: [function(t) for t in tensors]
    )
describe(
    "atleast_3d",
    "The tensor, or each of several, with dimensions put around until it has three.",
)
describe(
    "atleast_2d",
    "The tensor, or each of several, with dimensions put before until it has two.",
)
describe("atleast_1d", "The tensor, or each of several, with a dimension if it has none.")

# --- windows of a dimension ----------------------------------------------------------

# The first overload that fits is taken, and an integer fits whatever converts to one: that of a
# tensor comes first, which refuses a bool.
narrow_tensor = define(
    "aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)"
)
narrow_tensor.describe("`length` slices along `dim` from `start` on: a view.")
narrow = define("aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)")


@remembered
def narrow_start(self: TensorMeta, dim: int, start: int, length: int) -> int:
    """The first element of the window, counted from the front; RuntimeError if it does not fit."""
    check(self.ndim > 0, lambda: "narrow() cannot be applied to a 0-dim tensor.")
    size = self.shape[wrap_dim(dim, self.ndim)]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    first = start + size if start < 0 else start
    check(
        first <= size - length,
        lambda: f"start ({first}) + length ({length}) exceeds dimension size ({size}).",
    )
    return first


@narrow.composite
def narrow_composite(self: Tensor, dim: int, start: int, length: int) -> object:
    check(self.meta.ndim > 0, lambda: "narrow() cannot be applied to a 0-dim tensor.")
    check(length >= 0, lambda: "narrow(): length must be non-negative.")
    first = narrow_start(self.meta, dim, start, length)
    return slice(self, dim, first, first + length, 1)


@narrow_tensor.composite
def narrow_tensor_composite(self: Tensor, dim: int, start: Tensor, length: int) -> object:
    kind = start.meta.dtype
    check(
        start.meta.ndim == 0 and kind.category == 1,
        lambda: "start must be an 0-dim integral Tensor.",
    )
    return self.narrow(dim, operator.index(start), length)


__all__ = ["_reshape_alias", "flatten", "narrow", "reshape", "unflatten"]
