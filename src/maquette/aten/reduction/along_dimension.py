"""Functions along a dimension that other operators define: differences, integrals, quantiles.

And covariance, distance, renormalization. What has a derivative of its own is a page, the rest is
composed.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, wrap_existing_dim
from maquette.aten.common.formula_helpers import minus, over, plus, times
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.large_arrays import LARGE
from maquette.aten.common.operators import aten
from maquette.aten.reduction.vector_norms import norm_array, norm_grad
from maquette.aten.view.copies import write_exact_out, write_out
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.broadcast import broadcast_shapes, wrap_dim
from maquette.core.dtype import bool_, float32, float64, int64, result_type_of
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.arrays import run_as_on_page
from maquette.library.page import Cost, Variant, define, describe
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

Grad = Tensor | None


# --- distance ------------------------------------------------------------------------

dist = define("aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor")
dist.describe("The norm of order `p` of the difference ``self - other``: 0-dim.")
dist.autocast(cuda="float32")


@dist.shape
def dist_shape(self: TensorMeta, other: TensorMeta, p: Number) -> TensorMeta:
    broadcast_shapes(self.shape, other.shape)
    check(
        not isinstance(p, complex),
        lambda: f"dist: Expected a non-complex scalar as the order of norm, got {p}",
    )
    kind = result_type_of((self, other))
    check(
        kind.category > 1,
        lambda: (
            f"norm(): input dtype should be either floating point or complex. Got "
            f"{kind.scalar_name} instead."
        ),
    )
    return self.fresh((), kind.to_real())


@dist.kernel
def dist_kernel(xp: ModuleType, self: Array, other: Array, p: Number) -> Array:
    difference = wide(self) - wide(other)
    return norm_array(xp, difference, p, tuple(range(difference.ndim)), False)


dist.derivative(
    self=lambda grad, self, other, p, result: norm_grad(grad, self - other, p, result, None, False),
    other=lambda grad, self, other, p, result: (
        -norm_grad(grad, self - other, p, result, None, False)
    ),
)
dist.cost(lambda self, *rest: Cost(flops=3 * self.numel))


@dist.batching_decomposition
def dist_batching(self: Tensor, other: Tensor, p: Any) -> Tensor:
    return aten.linalg_vector_norm(self - other, p)


# --- renormalization -----------------------------------------------------------------

renorm = define(
    "aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    variants=(Variant.INPLACE, Variant.OUT),
)
renorm.describe(
    "`self` with slices along `dim` scaled down to a norm of `maxnorm` where theirs exceeds it."
)
renorm.autocast(cuda="float32")
_SMALL = 1e-7  # keeps the division finite


@renorm.shape
def renorm_shape(self: TensorMeta, p: Number, dim: int, maxnorm: Number) -> TensorMeta:
    check(
        not isinstance(p, complex) and p > 0,
        lambda: f"renorm: non-positive-norm not supported; got p={p}",
    )
    check(
        not isinstance(maxnorm, complex) and maxnorm >= 0,
        lambda: f"renorm: expected maxnorm to be >= 0 but got {maxnorm}",
    )
    check(
        self.ndim > 1,
        lambda: f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions",
    )
    check(
        self.dtype.category > 1,
        lambda: f"renorm: Expected a floating point or complex tensor as input. Got {self}",
    )
    wrap_dim(dim, self.ndim)
    return self.fresh(self.shape)


def _others(dim: int, ndim: int) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d != dim % ndim)


@renorm.kernel
def renorm_kernel(xp: ModuleType, self: Array, p: Number, dim: int, maxnorm: float) -> Array:
    x = wide(self)
    length = norm_array(xp, x, p, _others(dim, x.ndim), True)
    scale = xp.where(length > maxnorm, maxnorm / (length + _SMALL), 1).astype(length.dtype)
    result: Array = x * scale
    return result


def renorm_grad(grad: Tensor, self: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """Through the scale where it is less than 1; unchanged elsewhere."""
    dims = _others(dim, self.meta.ndim)
    length = aten.linalg_vector_norm(self, p, dims, True)
    product = self.conj() * grad if self.is_complex() else self * grad
    along = product.real if self.is_complex() else product
    by_length = norm_grad(along.sum(dims, True), self, p, length, dims, True)
    inverse = plus(length, _SMALL).reciprocal()
    rest = grad - inverse * by_length
    scaled = times(inverse, maxnorm) * rest
    found: Tensor = aten.where(length > maxnorm, scaled.to(grad.dtype), grad)
    return found


renorm.derivative(self=lambda grad, self, p, dim, maxnorm: renorm_grad(grad, self, p, dim, maxnorm))
renorm.exact_out()
renorm.cost(lambda self, *rest: Cost(flops=3 * self.numel))


@renorm.batching_decomposition
def renorm_batching(self: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    renorm_shape(self.meta, p, dim, maxnorm)  # for what it refuses
    others = [d for d in range(self.meta.ndim) if d != dim % self.meta.ndim]
    norms = aten.linalg_vector_norm(self, p, others, True)
    factor = aten.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)
    return (self * factor).to(self.dtype)


# --- differences ---------------------------------------------------------------------

_DIFF = "Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None"
diff = define(f"aten::diff({_DIFF}) -> Tensor")
diff.describe("The differences of neighbours along `dim`, `n` times: n fewer.")
diff_out = define(f"aten::diff.out({_DIFF}, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out])


def _check_extension(self: TensorMeta, dim: int, more: Grad) -> None:
    """Refuse what cannot be put before or after a tensor along ``dim``."""
    if more is None:
        return
    given = more.meta.shape
    check(
        len(given) == self.ndim,
        lambda: "diff expects prepend or append to be the same dimension as input",
    )
    for d, (have, want) in enumerate(zip(given, self.shape, strict=True)):
        check(
            d == dim or have == want,
            partial(
                "diff expects the shape of tensor to prepend or append to match that of input "
                "except along the differencing dimension; input.size({0}) = {1}, but got "
                "tensor.size({0}) = {2}".format,
                d,
                want,
                have,
            ),
        )


@diff.composite
def diff_composite(self: Tensor, n: int, dim: int, prepend: Grad, append: Grad) -> Tensor:
    """Differences of neighbours, n times over; of booleans: where neighbours differ."""
    check(self.meta.ndim >= 1, lambda: "diff expects input to be at least one-dimensional")
    check(n >= 0, lambda: f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, self.meta.ndim)
    for more in (prepend, append):
        _check_extension(self.meta, dim, more)
    if n == 0:
        return self.clone()
    parts = [t for t in (prepend, self, append) if t is not None]
    whole: Tensor = aten.cat(parts, dim) if len(parts) > 1 else self
    for _ in range(min(n, whole.meta.shape[dim])):
        if _may_be_flat(whole, dim):
            whole = _flat_differences(whole)
            continue
        steps = whole.meta.shape[dim] - 1
        low, high = whole.narrow(dim, 0, steps), whole.narrow(dim, 1, steps)
        whole = high.logical_xor(low) if whole.dtype is bool_ else high - low
    return whole


def _may_be_flat(t: Tensor, dim: int) -> bool:
    """Whether rows are many, and nobody sees by which operators their differences are taken."""
    return (
        dim == t.meta.ndim - 1 > 0
        and not (is_grad_enabled() and wants_derivative(t))
        and run_as_on_page((t,), "sub.Tensor")
        and t.meta.numel >= LARGE
        and t.meta.is_contiguous
    )


def _flat_differences(t: Tensor) -> Tensor:
    """Of neighbours in memory, less those of a row's end and the next row's begin.

    NumPy subtracts rows that begin at odd places at a third of the speed: 0.34 to 0.27 ms.
    """
    flat, size = t.flatten(), t.meta.shape[-1]
    steps = flat[1:] - flat[:-1]
    rows = [flat.meta.numel // size, size - 1]
    dense = steps.as_strided(rows, [size, 1]).contiguous()
    return dense.view([*t.meta.shape[:-1], size - 1])


diff_out.composite(
    lambda self, n, dim, prepend, append, out: write_out(
        out, diff_composite(self, n, dim, prepend, append)
    )
)


# --- integrals -----------------------------------------------------------------------

trapezoid_x = define("aten::trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor")
trapezoid_x.describe("The integral by the trapezoid rule along `dim`, which is reduced.")
trapezoid_dx = define("aten::trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor")
trapz_x = define("aten::trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor")
trapz_x.describe("The integral by the trapezoid rule along `dim`, which is reduced.")
trapz_dx = define("aten::trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor")
cumulative_trapezoid_x = define(
    "aten::cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"
)
cumulative_trapezoid_x.describe(
    "The integral by the trapezoid rule from the start up to each point: one fewer along `dim`."
)
cumulative_trapezoid_dx = define(
    "aten::cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"
)


def _check_no_bool(name: str, *tensors: Tensor) -> None:
    check(
        all(t.dtype is not bool_ for t in tensors),
        lambda: f"{name}: received a bool input for `x` or `y`, but bool is not supported",
    )


def _check_real_step(name: str, dx: Number) -> None:
    check(
        not isinstance(dx, complex | bool),
        lambda: f"{name}: Currently, we only support dx as a real number. Got {dx}",
    )


def _without(t: Tensor, dim: int) -> Tensor:
    """Zeros of the shape that is left without a dimension."""
    shape = t.meta.shape
    return zeros_beside(t, (*shape[:dim], *shape[dim + 1 :]))


def _steps(name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The distances between sample points, broadcast along y."""
    rank = y.meta.ndim
    check(x.meta.ndim > 0, lambda: f"{name}: There must be one `x` value for each sample point")
    if x.meta.ndim == 1:
        check(
            x.meta.shape[0] == y.meta.shape[dim],
            lambda: f"{name}: There must be one `x` value for each sample point",
        )
        x = x.view(tuple(x.meta.shape[0] if d == dim else 1 for d in range(rank)))
    elif x.meta.ndim < rank:
        x = x.view(((1,) * (rank - x.meta.ndim)) + x.meta.shape)
    low: Tensor = aten.slice(x, dim, 0, -1)
    return aten.slice(x, dim, 1) - low


def _pairs(t: Tensor, dim: int) -> Tensor:
    """The sums of neighbours."""
    high: Tensor = aten.slice(t, dim, 1)
    return aten.slice(t, dim, 0, -1) + high


@trapezoid_x.composite
def trapezoid_x_composite(y: Tensor, x: Tensor, dim: int) -> Tensor:
    dim = wrap_existing_dim(dim, y.meta.ndim)
    if is_true(y.meta.shape[dim] == 0):
        return _without(y, dim)
    _check_no_bool("trapezoid", y, x)
    steps = _steps("trapezoid", y, x, dim)
    return over((_pairs(y, dim) * steps).sum(dim), 2.0)


@trapezoid_dx.composite
def trapezoid_dx_composite(y: Tensor, dx: Number, dim: int) -> Tensor:
    dim = wrap_existing_dim(dim, y.meta.ndim)
    if is_true(y.meta.shape[dim] == 0):
        return _without(y, dim)
    _check_no_bool("trapezoid", y)
    _check_real_step("trapezoid", dx)
    last = y.select(dim, -1)
    ends = times(y.select(dim, 0) + last, 0.5)
    return times(y.sum(dim) - ends, dx)


@cumulative_trapezoid_x.composite
def cumulative_trapezoid_x_composite(y: Tensor, x: Tensor, dim: int) -> Tensor:
    dim = wrap_existing_dim(dim, y.meta.ndim)
    _check_no_bool("cumulative_trapezoid", y, x)
    steps = _steps("cumulative_trapezoid", y, x, dim)
    return over((_pairs(y, dim) * steps).cumsum(dim), 2.0)


@cumulative_trapezoid_dx.composite
def cumulative_trapezoid_dx_composite(y: Tensor, dx: Number, dim: int) -> Tensor:
    dim = wrap_existing_dim(dim, y.meta.ndim)
    _check_no_bool("cumulative_trapezoid", y)
    _check_real_step("cumulative_trapezoid", dx)
    return times(_pairs(y, dim), dx / 2.0).cumsum(dim)


trapz_x.composite(trapezoid_x_composite)
trapz_dx.composite(trapezoid_dx_composite)


# --- quantiles -----------------------------------------------------------------------

_WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(name: str, self: Tensor, q: Tensor, interpolation: str) -> None:
    check(self.meta.numel > 0, lambda: f"{name}() input tensor must be non-empty")
    check(
        self.dtype in (float32, float64),
        lambda: f"{name}() input tensor must be either float or double dtype; got {self.meta}",
    )
    check(
        q.meta.ndim <= 1,
        lambda: f"{name}() q must be a scalar or 1D tensor, but got {q.meta}",
    )
    check(
        q.dtype is self.dtype,
        lambda: (
            f"{name}() q tensor must be same dtype as the input tensor; got {q.meta} for "
            f"{self.meta}"
        ),
    )
    check(
        interpolation in _WAYS,
        lambda: (
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or "
            f"nearest, but got {interpolation}"
        ),
    )
    values = q._mq_data
    check(
        values is None or bool(((values >= 0) & (values <= 1)).all()),  # type: ignore[operator]  # floats
        lambda: f"{name}() q values must be in the range [0, 1]",
    )


def _lines(self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """The elements in order along the last dimension, before it the shape of a quantile."""
    shape, rank = self.meta.shape, self.meta.ndim
    if dim is None:
        flat: Tensor = self.flatten().sort()[0]
        return flat.view(((1,) * rank if keepdim else ()) + (self.meta.numel,))
    dim = wrap_dim(dim, rank)
    if not rank:
        return self.view((1,)).sort()[0]
    kept = tuple(1 if d == dim else n for d, n in enumerate(shape) if keepdim or d != dim)
    moved = self if dim == rank - 1 else self.unsqueeze(-1).transpose(dim, -1)
    return moved.sort()[0].view((*kept, shape[dim]))


def _quantile(
    name: str, self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    _check_quantile(name, self, q, interpolation)
    lines = _lines(self, dim, keepdim and self.meta.ndim > 0)
    if name == "nanquantile":
        ranks = q * minus(lines.isnan().logical_not_().sum((-1,), True), 1)
        ranks = ranks.masked_fill_(ranks < 0, 0)
    else:
        last = lines.meta.shape[-1] - 1
        ranks, spoiled = times(q, last), lines.isnan().any(-1, True)
        wanted = (*lines.meta.shape[:-1], q.meta.numel)
        ranks = ranks if ranks.meta.shape == wanted else ranks.expand(wanted)
        spoiled = spoiled if spoiled.meta.shape == wanted else spoiled.expand(wanted)
        ranks = ranks.masked_fill(spoiled, last)
    values = _at_ranks(lines, ranks, interpolation)
    if not q.meta.ndim:
        return values.squeeze_(-1)
    return values.unsqueeze_(0).transpose_(0, -1).squeeze_(-1)


def _at_ranks(lines: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    """The elements at ranks, which nobody else holds, that may lie between two of them."""
    if interpolation in ("lower", "higher", "nearest"):
        rounded = {"lower": ranks.floor_, "higher": ranks.ceil_, "nearest": ranks.round_}
        return lines.gather(-1, rounded[interpolation]().to(int64))
    below = ranks.to(int64)
    values = lines.gather(-1, below)
    weight = aten.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
    above = ranks.ceil_().to(int64)
    # Not in place, as PyTorch's is: what forward mode saves of the tangent would be written to.
    return values.lerp(lines.gather(-1, above), weight)


def _quantile_pages(name: str) -> None:
    rest = 'int? dim=None, bool keepdim=False, *, str interpolation="linear"'
    by_tensor = define(f"aten::{name}(Tensor self, Tensor q, {rest}) -> Tensor")
    by_number = define(f"aten::{name}.scalar(Tensor self, float q, {rest}) -> Tensor")
    out = define(
        f"aten::{name}.out(Tensor self, Tensor q, {rest}, Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out],
    )
    number_out = define(
        f"aten::{name}.scalar_out(Tensor self, float q, {rest}, Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out],
    )

    def of_number(
        self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str
    ) -> Tensor:
        check(0 <= q <= 1, lambda: f"{name}() q must be in the range [0, 1] but got {q}")
        rank = aten.scalar_tensor(q, dtype=self.dtype, device=self.device)
        return _quantile(name, self, rank, dim, keepdim, interpolation)

    by_tensor.composite(
        lambda self, q, dim, keepdim, way: _quantile(name, self, q, dim, keepdim, way)
    )
    by_number.composite(of_number)
    by_tensor.autocast(cpu="float32")
    by_number.autocast(cpu="float32")
    out.composite(
        lambda self, q, dim, keepdim, way, out: write_exact_out(
            out, _quantile(name, self, q, dim, keepdim, way)
        )
    )
    number_out.composite(
        lambda self, q, dim, keepdim, way, out: write_exact_out(
            out, of_number(self, q, dim, keepdim, way)
        )
    )


_quantile_pages("quantile")
describe("quantile", "The quantiles `q` of the elements; of a vector `q`, a first dimension.")
_quantile_pages("nanquantile")
describe("nanquantile", "The quantiles `q` of the elements that are not NaN.")


# --- covariance ----------------------------------------------------------------------

cov = define(
    "aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) "
    "-> Tensor"
)
cov.describe("The covariance matrix of variables, a row each.")
corrcoef = define("aten::corrcoef(Tensor self) -> Tensor")
corrcoef.describe("The correlation matrix of variables, a row each.")


def _check_weights(name: str, weights: Grad, observations: int) -> None:
    if weights is None:
        return
    check(
        weights.meta.ndim <= 1,
        lambda: (
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.meta.ndim} dimensions"
        ),
    )
    check(
        weights.meta.numel == observations,
        lambda: (
            f"cov(): expected {name} to have the same numel as there are observations in the "
            f"input but got {weights.meta.numel} != {observations}"
        ),
    )
    # By `equal`, not as a Python number: subclasses of tensors may not have those.
    fine = (weights >= 0).all()
    check(aten.equal(fine, aten.ones_like(fine)), lambda: f"cov(): {name} cannot be negative")


@cov.composite
def cov_composite(self: Tensor, correction: int, fweights: Grad, aweights: Grad) -> Tensor:
    """Rows are variables, columns observations, which may be repeated or weighted."""
    check(
        self.meta.ndim <= 2,
        lambda: (
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{self.meta.ndim} dimensions"
        ),
    )
    check(self.dtype is not bool_, lambda: "cov(): bool dtype is not supported for input")
    rows = self if self.meta.ndim == 2 else self.view((1, -1))
    observations = rows.meta.shape[1]
    check(
        fweights is None or fweights.dtype.category == 1,
        lambda: (
            "cov(): expected fweights to have integral dtype but got fweights with "
            f"{'' if fweights is None else fweights.dtype.scalar_name} dtype"
        ),
    )
    check(
        aweights is None or aweights.dtype.is_floating_point,
        lambda: (
            "cov(): expected aweights to have floating point dtype but got aweights with "
            f"{'' if aweights is None else aweights.dtype.scalar_name} dtype"
        ),
    )
    _check_weights("fweights", fweights, observations)
    _check_weights("aweights", aweights, observations)
    weights = fweights
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        centered = rows - (rows.sum((1,)) / observations).unsqueeze(1)
        product: Tensor = centered.mm(_adjoint(centered))
        return (product / max(observations - correction, 0)).squeeze()
    total = weights.sum()
    centered = rows - ((rows * weights).sum((1,)) / total).unsqueeze(1)
    freedom = total - correction
    if aweights is not None and correction != 0:
        freedom = total - (weights * aweights).sum() * correction / total
    scaled: Tensor = centered.mm(_adjoint(centered * weights))
    return (scaled / freedom.clamp(0)).squeeze()


def _adjoint(matrix: Tensor) -> Tensor:
    return matrix.t().conj() if matrix.is_complex() else matrix.t()


@corrcoef.composite
def corrcoef_composite(self: Tensor) -> Tensor:
    """Covariances divided by both standard deviations."""
    check(
        self.meta.ndim <= 2,
        lambda: (
            f"corrcoef(): expected input to have two or fewer dimensions but got an input "
            f"with {self.meta.ndim} dimensions"
        ),
    )
    c = cov_composite(self, 1, None, None)
    if not c.meta.ndim:
        return c / c  # NaN where there is no variance, 1 elsewhere
    d = c.diagonal()
    deviation = (d.real if d.is_complex() else d).sqrt()
    c = c / deviation.view((-1, 1)) / deviation.view((1, -1))
    if not c.is_complex():
        return c.clamp(-1, 1)
    found: Tensor = aten.complex(c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
    return found
