"""Fourier transforms: three operators on complex or real arrays, and the functions made of them.

Operators neither pad nor promote; the ``fft_*`` functions do. Results are laid out as transforms
leave them: what was not transformed first, by falling strides, what was transformed last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import fourier
from maquette.aten.common.axes import wrap_existing_dim
from maquette.aten.common.batching_forms import along, rank_of, to_front
from maquette.aten.common.operators import aten
from maquette.aten.view.copies import write_out
from maquette.core.dtype import dtype
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.promotion import get_default_dtype
from maquette.core.strides import Shape, Strides, contiguous_strides
from maquette.core.symbols import is_true, sorted_by
from maquette.dispatch.tags import Tag
from maquette.library.page import Variant, define, describe
from maquette.library.variants import check_castable
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Ints = tuple[int, ...]
PLAIN, ROOT, WHOLE = 0, 1, 2


# --- the operators -------------------------------------------------------------------


def _laid_out(
    like: TensorMeta, strides: Strides, shape: Shape, dims: Ints, kind: dtype
) -> TensorMeta:
    """Contiguous in the order: other dimensions by falling strides, then ``dims``."""
    others = [d for d in range(like.ndim) if d not in dims]
    order = [*reversed(sorted_by(reversed(others), strides)), *dims]
    packed = contiguous_strides(tuple(shape[d] for d in order))
    places = dict(zip(order, packed, strict=True))
    return like.fresh(shape, kind, tuple(places[d] for d in range(like.ndim)))


def _by_strides(self: TensorMeta, dims: Ints) -> Ints:
    return tuple(reversed(sorted_by(reversed(dims), self.strides)))


def _scale(normalization: int, sizes: Sequence[int]) -> float:
    count = math.prod(sizes)
    return {PLAIN: 1.0, ROOT: 1 / math.sqrt(count or 1), WHOLE: 1 / (count or 1)}[normalization]


def _wrapped(name: str, dim: Ints, ndim: int, normalization: int) -> Ints:
    """The dimensions, counted from the front; an unknown normalization is refused too."""
    check(
        normalization in (PLAIN, ROOT, WHOLE),
        lambda: f"{name}: normalization must be 0, 1 or 2; got {normalization}",
    )
    return tuple([wrap_existing_dim(d, ndim) for d in dim])


def _check_data_points(name: str, dims: Ints, points: int) -> None:
    check(
        len(dims) > 0 and points > 0,
        lambda: f"{name}: Invalid number of data points ({points}) specified for dims {list(dims)}",
    )


_fft_c2c = define(
    "aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    variants=[Variant.OUT],
)


@_fft_c2c.shape
def c2c_shape(self: TensorMeta, dim: Ints, normalization: int, forward: bool) -> TensorMeta:
    check(self.dtype.is_complex, lambda: f"_fft_c2c expects a complex tensor, got {self}")
    wrapped = _wrapped("_fft_c2c", dim, self.ndim, normalization)
    if not dim:
        return self.like()
    dims = _by_strides(self, wrapped)
    return _laid_out(self, self.strides, self.shape, dims, self.dtype)


def _transformed(xp: ModuleType, x: Array, dims: Ints, *, forward: bool) -> Array:
    """The transform without any scale."""
    if not x.size:
        return x
    transforms = fourier(xp)
    if len({d % x.ndim for d in dims}) < len(dims):
        # Along one dimension more than once, which not every library does in one call.
        for dim in dims:
            x = _transformed(xp, x, (dim,), forward=forward)
        return x
    if forward:
        found: Array = transforms.fftn(x, axes=dims, norm="backward")
    else:
        found = transforms.ifftn(x, axes=dims, norm="forward")
    return found


def _scaled(x: Array, normalization: int, sizes: Sequence[int]) -> Array:
    """A transform's result by its scale, which is the result itself where there is none."""
    if normalization == PLAIN and x.size:
        return x
    factor = x.real.dtype.type(_scale(normalization, sizes))
    if not isinstance(x, np.ndarray) or x.dtype.kind != "c":
        scaled: Array = x * factor
        return scaled
    # Part by part: as a complex number the factor would make NaN of an infinity's other part.
    if x.flags.c_contiguous and x.ndim:
        halves = x.view(x.real.dtype) * factor
        return halves.view(x.dtype)
    parts = np.empty_like(x)
    np.multiply(x.real, factor, out=parts.real)
    np.multiply(x.imag, factor, out=parts.imag)
    return parts


@_fft_c2c.kernel
def c2c_kernel(xp: ModuleType, self: Array, dim: Ints, normalization: int, forward: bool) -> Array:
    if not dim:
        return self.copy()
    sizes = [self.shape[d] for d in dim]
    return _scaled(_transformed(xp, self, dim, forward=forward), normalization, sizes)


_fft_c2c.linear(
    self=lambda grad, dim, normalization, forward: _fft_c2c(grad, dim, normalization, not forward)
)


@_fft_c2c.batching
def c2c_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, dim: Ints, normalization: int, forward: bool
) -> tuple[Tensor, int]:
    rank = rank_of(self, in_dims[0])
    dims = [d % rank + 1 for d in dim]  # none are none, not all
    return _fft_c2c(to_front(self, in_dims[0]), dims, normalization, forward), 0


_fft_r2c = define(
    "aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    tags=[Tag.core],
    variants=[Variant.OUT],
)


@_fft_r2c.shape
def r2c_shape(self: TensorMeta, dim: Ints, normalization: int, onesided: bool) -> TensorMeta:
    check(
        self.dtype.is_floating_point,
        lambda: f"_fft_r2c expects a floating point tensor, got {self}",
    )
    dims = _wrapped("_fft_r2c", dim, self.ndim, normalization)
    _check_data_points("_fft_r2c", dims, self.shape[dims[-1]] if dims else 0)
    shape = list(self.shape)
    if onesided:
        shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    order = (*_by_strides(self, dims[:-1]), dims[-1])
    return _laid_out(self, self.strides, tuple(shape), order, self.dtype.to_complex())


@_fft_r2c.kernel
def r2c_kernel(xp: ModuleType, self: Array, dim: Ints, normalization: int, onesided: bool) -> Array:
    last, rest = dim[-1], dim[:-1]
    if onesided:
        half = fourier(xp).rfft(self, axis=last, norm="backward")
    else:
        half = _mirrored(xp, fourier(xp).rfft(self, axis=last, norm="backward"), self, last)
    whole = _transformed(xp, half, rest, forward=True) if rest else half
    return _scaled(whole, normalization, [self.shape[d] for d in dim])


def _mirrored(xp: ModuleType, half: Array, signal: Array, dim: int) -> Array:
    """A real signal's whole transform: behind the half, the conjugates of it reversed."""
    rest = xp.moveaxis(half, dim, -1)[..., 1 : (signal.shape[dim] + 1) // 2]
    rest = xp.moveaxis(xp.conj(rest[..., ::-1]), -1, dim)
    return xp.concatenate([half, rest], axis=dim)


@_fft_r2c.linear("self")
def r2c_grad(
    grad: Tensor, self_meta: TensorMeta, dim: Ints, normalization: int, onesided: bool
) -> tuple[Tensor]:
    if onesided:
        last = dim[-1] % self_meta.ndim
        half = grad.meta.shape[last]
        if not is_true(half == self_meta.shape[last]):
            whole = grad.new_zeros(self_meta.shape)
            aten.slice(whole, last, 0, half).copy_(grad)
            grad = whole
    return (_fft_c2c(grad, dim, normalization, False).real,)


_fft_r2c.batching(along)


_fft_c2r = define(
    "aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    tags=[Tag.core],
    variants=[Variant.OUT],
)


@_fft_c2r.shape
def c2r_shape(self: TensorMeta, dim: Ints, normalization: int, last_dim_size: int) -> TensorMeta:
    check(self.dtype.is_complex, lambda: f"_fft_c2r expects a complex tensor, got {self}")
    dims = _wrapped("_fft_c2r", dim, self.ndim, normalization)
    has_last = dims and not is_true(self.shape[dims[-1]] == 0)
    _check_data_points("_fft_c2r", dims, last_dim_size if has_last else 0)
    # All dimensions but the last are transformed first, which lays the data out anew.
    before = c2c_shape(self, dims[:-1], normalization, False) if len(dims) > 1 else self
    shape = list(self.shape)
    shape[dims[-1]] = last_dim_size
    return _laid_out(self, before.strides, tuple(shape), dims[-1:], self.dtype.to_real())


@_fft_c2r.kernel
def c2r_kernel(
    xp: ModuleType, self: Array, dim: Ints, normalization: int, last_dim_size: int
) -> Array:
    last, rest = dim[-1], dim[:-1]
    whole = _transformed(xp, self, rest, forward=False) if rest else self
    out = fourier(xp).irfft(whole, last_dim_size, axis=last, norm="forward")
    return _scaled(out, normalization, [*[self.shape[d] for d in rest], last_dim_size])


@_fft_c2r.linear("self")
def c2r_grad(grad: Tensor, dim: Ints, normalization: int) -> tuple[Tensor]:
    half = _fft_r2c(grad, dim, normalization, True)
    last = dim[-1] % grad.meta.ndim
    size, full = half.meta.shape[last], grad.meta.shape[last]
    # Frequencies that stand for two count twice: all but the first, and the middle one if there is.
    if is_true(full > size):
        aten.mul_.Scalar(half.narrow(last, 1, full - size), 2)
    return (half,)


_fft_c2r.batching(along)


# --- arguments of the functions ------------------------------------------------------


def _normalization(norm: str | None, *, forward: bool) -> int:
    check(
        norm in (None, "forward", "backward", "ortho"),
        lambda: f'Invalid normalization mode: "{norm}"; expected "forward", "backward" or "ortho"',
    )
    if norm == "ortho":
        return ROOT
    return WHOLE if (norm == "forward") is forward else PLAIN


def _promoted(self: Tensor, *, to_complex: bool) -> Tensor:
    kind = self.dtype
    if not (kind.is_floating_point or kind.is_complex):
        kind = get_default_dtype()
    narrow = kind.itemsize < (8 if kind.is_complex else 4)
    if to_complex and not kind.is_complex:
        kind = kind.to_complex()
    check(
        not narrow,
        lambda: f"Unsupported dtype {self.dtype.scalar_name}: transforms take float32 and wider",
    )
    return self if kind is self.dtype else self.to(kind)


def _one_dim(self: Tensor, dim: int) -> int:
    ndim = self.meta.ndim
    wrap_existing_dim(dim, ndim)
    return dim % ndim


def _dims_and_sizes(self: Tensor, s: Ints | None, dim: Ints | None) -> tuple[Ints, list[int]]:
    shape, ndim = self.meta.shape, self.meta.ndim
    if dim is not None:
        dims = tuple(_one_dim(self, d) for d in dim)
        check(len(set(dims)) == len(dims), lambda: f"FFT dims must be unique; got {list(dim)}")
        check(
            s is None or len(s) == len(dims),
            lambda: "When given, dim and shape arguments must have the same length",
        )
    else:
        check(
            s is None or len(s) <= ndim,
            lambda: (
                f"Got shape with {len(s or ())} values but input tensor only has {ndim} dimensions."
            ),
        )
        dims = tuple(range(ndim)) if s is None else tuple(range(ndim - len(s), ndim))
    sizes = [shape[d] for d in dims]
    if s is not None:
        sizes = [shape[d] if n == -1 else n for n, d in zip(s, dims, strict=True)]
    for n in sizes:
        _check_points(n)
    return dims, sizes


def _check_points(n: int) -> None:
    check(n >= 1, lambda: f"Invalid number of data points ({n}) specified")


def _resized(self: Tensor, dims: Ints, sizes: Sequence[int]) -> Tensor:
    """Cut or continued by zeros to the sizes."""
    pad = [0] * (2 * self.meta.ndim)
    grows = False
    for d, n in zip(dims, sizes, strict=True):
        have = self.meta.shape[d]
        if n < have:
            self = aten.slice(self, d, 0, n)
        elif n > have:
            grows = True
            pad[2 * (self.meta.ndim - 1 - d) + 1] = n - have
    return aten.constant_pad_nd(self, pad) if grows else self


def _check_real(name: str, self: Tensor) -> None:
    check(
        not self.dtype.is_complex,
        lambda: f"{name} expects a real input tensor, but got {self.dtype.scalar_name}",
    )


# --- one dimension -------------------------------------------------------------------


def _fft(self: Tensor, n: int | None, dim: int, norm: str | None, *, forward: bool) -> Tensor:
    x = _promoted(self, to_complex=False)
    at = _one_dim(self, dim)
    size = self.meta.shape[at] if n is None else n
    _check_points(size)
    x = x if n is None else _resized(x, (at,), (size,))
    mode = _normalization(norm, forward=forward)
    if x.dtype.is_complex:
        result: Tensor = _fft_c2c(x, (at,), mode, forward)
        return result
    result = _fft_r2c(x, (at,), mode, False)
    return result if forward else result.conj()


def _to_half(self: Tensor, n: int | None, dim: int, norm: str | None, *, forward: bool) -> Tensor:
    _check_real("rfft" if forward else "ihfft", self)
    x = _promoted(self, to_complex=False)
    at = _one_dim(self, dim)
    size = self.meta.shape[at] if n is None else n
    _check_points(size)
    x = x if n is None else _resized(x, (at,), (size,))
    result: Tensor = _fft_r2c(x, (at,), _normalization(norm, forward=forward), True)
    return result if forward else result.conj()


def _from_half(self: Tensor, n: int | None, dim: int, norm: str | None, *, forward: bool) -> Tensor:
    x = _promoted(self, to_complex=True)
    at = _one_dim(self, dim)
    size = 2 * (self.meta.shape[at] - 1) if n is None else n
    _check_points(size)
    x = x if n is None else _resized(x, (at,), (size // 2 + 1,))
    x = x.conj() if forward else x
    result: Tensor = _fft_c2r(x, (at,), _normalization(norm, forward=forward), size)
    return result


# --- several dimensions --------------------------------------------------------------


def _fftn(
    self: Tensor, s: Ints | None, dim: Ints | None, norm: str | None, *, forward: bool
) -> Tensor:
    dims, sizes = _dims_and_sizes(self, s, dim)
    x = _resized(_promoted(self, to_complex=True), dims, sizes)
    result: Tensor = _fft_c2c(x, dims, _normalization(norm, forward=forward), forward)
    return result


def _rfftn(
    self: Tensor, s: Ints | None, dim: Ints | None, norm: str | None, *, forward: bool
) -> Tensor:
    _check_real("rfftn" if forward else "ihfftn", self)
    dims, sizes = _dims_and_sizes(self, s, dim)
    check(len(dims) > 0, lambda: "must transform at least one axis")
    x = _resized(_promoted(self, to_complex=False), dims, sizes)
    mode = _normalization(norm, forward=forward)
    result: Tensor
    if forward:
        result = _fft_r2c(x, dims, mode, True)
        return result
    half = _fft_r2c(x, dims[-1:], mode, True)
    if len(dims) == 1:
        result = half.conj()
        return result
    result = _fft_c2c(aten.conj_physical(half), dims[:-1], mode, False)
    return result


def _irfftn(
    self: Tensor, s: Ints | None, dim: Ints | None, norm: str | None, *, forward: bool
) -> Tensor:
    dims, sizes = _dims_and_sizes(self, s, dim)
    check(len(dims) > 0, lambda: "must transform at least one axis")
    last = sizes[-1]
    if s is None or s[-1] == -1:
        last = 2 * (self.meta.shape[dims[-1]] - 1)
        _check_points(last)
    x = _resized(_promoted(self, to_complex=True), dims, [*sizes[:-1], last // 2 + 1])
    mode = _normalization(norm, forward=forward)
    result: Tensor
    if not forward:
        result = _fft_c2r(x, dims, mode, last)
        return result
    if len(dims) > 1:
        x = _fft_c2c(x, dims[:-1], mode, True)
    result = _fft_c2r(x.conj(), dims[-1:], mode, last)
    return result


# --- their pages ---------------------------------------------------------------------

_KINDS = {
    "fft": "SymInt? n=None, int dim=-1, str? norm=None",
    "fft2": "SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None",
    "fftn": "SymInt[1]? s=None, int[1]? dim=None, str? norm=None",
}
_FAMILIES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], bool]] = {
    "{}": (_fft, _fftn, True),
    "i{}": (_fft, _fftn, False),
    "r{}": (_to_half, _rfftn, True),
    "ir{}": (_from_half, _irfftn, False),
    "h{}": (_from_half, _irfftn, True),
    "ih{}": (_to_half, _rfftn, False),
}


def _page(name: str, arguments: str, function: Callable[..., Tensor], forward: bool) -> None:
    def direct(self: Tensor, sizes: object, dim: object, norm: str | None) -> Tensor:
        return function(self, sizes, dim, norm, forward=forward)

    def into(self: Tensor, sizes: object, dim: object, norm: str | None, out: Tensor) -> Tensor:
        check(
            out.is_floating_point() or not name.startswith(("ir", "h")),
            lambda: (
                f"{name} expects a floating point output tensor, but got {out.dtype.scalar_name}"
            ),
        )
        return write_out(out, function(self, sizes, dim, norm, forward=forward))

    page = define(f"aten::fft_{name}(Tensor self, {arguments}) -> Tensor")
    page.composite(direct)
    if name not in ("hfft2", "hfftn", "ihfft2", "ihfftn"):
        page.autocast(cpu="float32")
    define(
        f"aten::fft_{name}.out(Tensor self, {arguments}, *, Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out],
    ).composite(_ihfftn_into if name in ("ihfft2", "ihfftn") else into)


def _ihfftn_into(
    self: Tensor, s: Ints | None, dim: Ints | None, norm: str | None, out: Tensor
) -> Tensor:
    """``out=`` of ``ihfftn`` and ``ihfft2``; of one dimension transformed it keeps what it had.

    That is PyTorch 2.13's answer too, surely a mistake: use ``ihfft`` with ``out=`` there.
    """
    result = _rfftn(self, s, dim, norm, forward=False)
    check_castable("fft_ihfftn", result.dtype, out.dtype)
    dims, _ = _dims_and_sizes(self, s, dim)
    return write_out(out, result) if len(dims) > 1 else out


for _family, (_one, _several, _forward) in _FAMILIES.items():
    for _kind, _arguments in _KINDS.items():
        _page(_family.format(_kind), _arguments, _one if _kind == "fft" else _several, _forward)
describe(
    "fft_rfftn",
    "The discrete Fourier transform of real signals over dimensions `dim`, half of the last.",
)
describe(
    "fft_rfft2",
    "The discrete Fourier transform of real signals over two dimensions, half of the last.",
)
describe(
    "fft_rfft",
    "The discrete Fourier transform of a real signal: its first ``n // 2 + 1`` frequencies.",
)
describe("fft_irfftn", "The inverse of `rfftn`: real points.")
describe("fft_irfft2", "The inverse of `rfft2`: real points.")
describe(
    "fft_irfft",
    "The inverse of `rfft`: `n` real points, by default twice the given ones less two.",
)
describe("fft_ihfftn", "The inverse of `hfftn`: of the last dimension the first half.")
describe("fft_ihfft2", "The inverse of `hfft2`: of the last dimension the first half.")
describe("fft_ihfft", "The inverse of `hfft`: the first ``n // 2 + 1`` points.")
describe("fft_ifftn", "The inverse of `fftn`, of the same shape: complex.")
describe("fft_ifft2", "The inverse of `fft2`, of the same shape: complex.")
describe("fft_ifft", "The inverse of `fft`, of the same shape: complex.")
describe("fft_hfftn", "`hfft` over dimensions `dim`, the last one given by its first half.")
describe("fft_hfft2", "`hfft` over two dimensions, the last one given by its first half.")
describe(
    "fft_hfft",
    "The real transform of a signal that is the conjugate of itself reversed, given by its "
    "first half.",
)
describe(
    "fft_fftn",
    "The discrete Fourier transform over dimensions `dim`, padded or cut to sizes `s`: complex.",
)
describe(
    "fft_fft2",
    "The discrete Fourier transform over two dimensions, padded or cut to sizes `s`: complex.",
)
describe(
    "fft_fft",
    "The discrete Fourier transform along `dim`, padded or cut to `n` points: complex.",
)


def _rolled(self: Tensor, dim: Ints | int | None, more: int) -> Tensor:
    ndim = self.meta.ndim
    given = range(ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [wrap_existing_dim(d, ndim) for d in given]
    shifts = [(self.meta.shape[d] + more) // 2 for d in dims]
    rolled: Tensor = self.roll(shifts, tuple(dims))
    return rolled


fft_fftshift = define("aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor")
fft_fftshift.describe(
    "The frequencies of a transform with the zero one moved to the middle, of the same shape."
)
fft_fftshift.composite(lambda self, dim: _rolled(self, dim, 0))
fft_ifftshift = define("aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor")
fft_ifftshift.describe("The inverse of `fftshift`, of the same shape.")
fft_ifftshift.composite(lambda self, dim: _rolled(self, dim, 1))
