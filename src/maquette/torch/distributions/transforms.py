"""Transforms: invertible functions of tensors, with the logarithm of how they stretch volumes.

``t(x)``, ``t.inv(y)`` and ``t.log_abs_det_jacobian(x, y)``; ``domain`` and ``codomain`` say what
goes in and out. With ``cache_size=1`` the last pair is kept: inverting a result gives its argument.
"""

from __future__ import annotations

import functools
import math
import operator
import weakref
from collections.abc import Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import finfo
from maquette.core.size import Size
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.constraints import Constraint
from maquette.torch.distributions.utils import (
    broadcast_all,
    summed,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

Shape = Sequence[int]


class Transform:
    """A function with an inverse; a subclass gives `_call`, `_inverse`, `log_abs_det_jacobian`.

    cache_size: 0, or 1 to keep the last argument and result. Raises ValueError for more.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)
        self._inv: Any = None

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions belong to one value."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse; whose inverse is this one."""
        inverse: Transform | None = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 or -1: whether a function of one number rises or falls."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self.__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # equal ones may have tensors in them

    def __call__(self, x: Any) -> Any:
        """The result for ``x``."""
        if self._cache_size == 0:
            return self._call(x)
        known, result = self._cached
        if x is known:
            return result
        y = self._call(x)
        self._cached = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        argument, known = self._cached
        if y is known:
            return argument
        x = self._inverse(y)
        self._cached = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det dy/dx|, for x and its result y."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Shape) -> Size:
        """The shape of the result for an argument of this shape."""
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """The shape of the argument for a result of this shape."""
        return Size(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}


class _InverseTransform(Transform):
    """The inverse of a transform, which it holds."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Transform = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> Any:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self._inv.forward_shape(shape)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)


class ComposeTransform(Transform):
    """Several transforms, the first applied first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    @property
    def domain(self) -> Any:
        """What goes into the first, with the dimensions that later ones want."""
        if not self.parts:
            return constraints.real
        event = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event += part.domain.event_dim - part.codomain.event_dim
            event = max(event, part.domain.event_dim)
        return _lifted(self.parts[0].domain, event)

    @property
    def codomain(self) -> Any:
        """What comes out of the last, with the dimensions that earlier ones gave."""
        if not self.parts:
            return constraints.real
        event = self.parts[0].domain.event_dim
        for part in self.parts:
            event += part.codomain.event_dim - part.domain.event_dim
            event = max(event, part.codomain.event_dim)
        return _lifted(self.parts[-1].codomain, event)

    @property
    def bijective(self) -> Any:
        """Whether all are."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """The product of the signs."""
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        """The inverses, last first."""
        inverse: Transform | None = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        same = self._cache_size == cache_size
        return self if same else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Any) -> Any:
        """The result of all."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum over the parts."""
        if not self.parts:
            return mq.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        event = self.domain.event_dim
        terms = []
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            stretch = part.log_abs_det_jacobian(before, after)
            terms.append(summed(stretch, event - part.domain.event_dim))
            event += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Shape) -> Size:
        """Through all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """Back through all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return Size(shape)

    def __repr__(self) -> str:
        lines = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {lines}\n)"


def _lifted(constraint: Constraint, event: int) -> Constraint:
    more = event - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dimensions are taken together as one value."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        if self._cache_size == cache_size:
            return self
        dims = self.reinterpreted_batch_ndims
        return IndependentTransform(self.base_transform, dims, cache_size=cache_size)

    @property
    def domain(self) -> Any:
        """The base's, with the dimensions."""
        dims = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_transform.domain, dims)

    @property
    def codomain(self) -> Any:
        """The base's, with the dimensions."""
        dims = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_transform.codomain, dims)

    @property
    def bijective(self) -> Any:
        """The base's."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The base's."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The base's, summed over the dimensions."""
        stretch = self.base_transform.log_abs_det_jacobian(x, y)
        return summed(stretch, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Shape) -> Size:
        """The base's."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """The base's."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The last dimensions in another shape of as many elements."""

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Any numbers of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Any numbers of the second."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        batch = x.shape[: x.dim() - len(self.in_shape)]
        return x.reshape((*batch, *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        batch = y.shape[: y.dim() - len(self.out_shape)]
        return y.reshape((*batch, *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0."""
        batch = x.shape[: x.dim() - len(self.in_shape)]
        return x.new_zeros(batch)

    def forward_shape(self, shape: Shape) -> Size:
        """With the last dimensions replaced."""
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """With the last dimensions replaced."""
        return _reshaped(shape, self.out_shape, self.in_shape)


def _reshaped(shape: Shape, old: Size, new: Size) -> Size:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(old)}")
    return Size((*shape[:cut], *new))


# --- of one number -----------------------------------------------------------------------------


class _Scalar(Transform):
    """Of each number by itself; all of one class are equal."""

    domain = constraints.real
    bijective = True

    @property
    def sign(self) -> Any:
        """1: it rises."""
        return 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = None


class ExpTransform(_Scalar):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x."""
        return x


class PowerTransform(Transform):
    """x ** exponent, of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = broadcast_all(exponent)[0]

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        same = self._cache_size == cache_size
        return self if same else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        """The exponent's."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Size:
        """Broadcast with the exponent."""
        return Size(broadcast_shapes(tuple(shape), tuple(self.exponent.shape)))

    inverse_shape = forward_shape


class SigmoidTransform(_Scalar):
    """1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = finfo(x.dtype)
        return mq.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x) - softplus(x)."""
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Scalar):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)."""
        return -F.softplus(-x)


class TanhTransform(_Scalar):
    """tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return mq.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """2 (log 2 - x - softplus(-2 x))."""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|; its inverse gives the positive one."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale * x."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions belong to one value."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Any numbers."""
        return _lifted(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """Any numbers."""
        return _lifted(constraints.real, self.event_dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    __hash__ = None

    @property
    def sign(self) -> Any:
        """The scale's."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|, summed over the value."""
        shape = x.shape
        if isinstance(self.scale, Tensor):
            result = mq.abs(self.scale).log()
        else:
            result = mq.full_like(x, math.log(abs(self.scale)))
        if self.event_dim:
            result = result.view((*result.size()[: -self.event_dim], -1)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape: Shape) -> Size:
        """Broadcast with loc and scale."""
        own = [tuple(getattr(v, "shape", ())) for v in (self.loc, self.scale)]
        return Size(broadcast_shapes(tuple(shape), *own))

    inverse_shape = forward_shape


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return bool(a == b)
    return bool((mq.as_tensor(a) == b).all())


class CumulativeDistributionTransform(Transform):
    """The probability of less, of a distribution; its inverse gives quantiles."""

    bijective = True
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def sign(self) -> Any:
        """1."""
        return 1

    @property
    def domain(self) -> Any:
        """What the distribution gives."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the density."""
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)


# --- of vectors and matrices ---------------------------------------------------------------------


class SoftmaxTransform(Transform):
    """Shares of exponentials; its inverse takes logarithms."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Size:
        """The shape; ValueError for a number."""
        return _at_least(shape, 1)

    def inverse_shape(self, shape: Shape) -> Size:
        """The shape; ValueError for a number."""
        return _at_least(shape, 1)


def _at_least(shape: Shape, dims: int) -> Size:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return Size(shape)


class StickBreakingTransform(Transform):
    """Shares broken off a stick, one after the other: n numbers make n + 1 shares."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = None

    def _offset(self, x: Tensor) -> Tensor:
        return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)

    def _call(self, x: Tensor) -> Tensor:
        z = mq.sigmoid(x - self._offset(x).log())
        info = finfo(z.dtype)
        z = z.clamp(min=info.tiny, max=1.0 - info.eps)
        left = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        offset = y.shape[-1] - cropped.new_ones(cropped.shape[-1]).cumsum(-1)
        left = (1 - cropped.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return cropped.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the breaks."""
        x = x - self._offset(x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        """With one share more."""
        return Size((*_at_least(shape, 1)[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Size:
        """With one number less."""
        return Size((*_at_least(shape, 1)[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Square matrices made lower triangular, with the exponentials of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices made positive definite, by their lower triangles."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(mq.linalg_cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers as the Cholesky factor of an n x n matrix of correlations."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = mq.tanh(x)
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        squared = r**2
        left = (1 - squared).sqrt().cumprod(-1)
        r = r + mq.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - mq.cumsum(y * y, dim=-1)
        shifted = F.pad(left[..., :-1], [1, 0], value=1)
        below, left = tril_matrix_to_vec(y, diag=-1), tril_matrix_to_vec(shifted, diag=-1)
        t = below / left.sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        """The sum over the factor's triangle and the numbers."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        return 0.5 * left.log().sum(-1) - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        """Of the matrix; ValueError where there is none."""
        count = _at_least(shape, 1)[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Shape) -> Size:
        """Of the numbers; ValueError where there are none."""
        _at_least(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return Size((*shape[:-2], n * (n - 1) // 2))


# --- several side by side ----------------------------------------------------------------


class CatTransform(Transform):
    """Transforms of parts of a dimension, of given lengths."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths and transforms are as many, not {len(self.lengths)} and "
                f"{len(self.transforms)}"
            )
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """The most of any part."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Of the whole dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, x: Tensor) -> Sequence[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != self.length:
            raise AssertionError(f"dimension {self.dim} of {x.shape} is not {self.length} long")
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return mq.cat([t(p) for t, p in zip(self.transforms, self._pieces(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return mq.cat([t.inv(p) for t, p in zip(self.transforms, self._pieces(y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Side by side, or summed where the dimension belongs to a value."""
        found = []
        for t, a, b in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            stretch = t.log_abs_det_jacobian(a, b)
            found.append(summed(stretch, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return mq.cat(found, dim) if dim < 0 else functools.reduce(operator.add, found)

    @property
    def bijective(self) -> Any:
        """Whether all are."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Theirs, side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Theirs, side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """A transform for each position along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One like this that keeps so many pairs."""
        same = self._cache_size == cache_size
        return self if same else StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z: Tensor) -> list[Tensor]:
        if not -z.dim() <= self.dim < z.dim() or z.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"dimension {self.dim} of {z.shape} has not {len(self.transforms)} positions"
            )
        return [z.select(self.dim, i) for i in range(z.size(self.dim))]

    def _call(self, x: Tensor) -> Tensor:
        return mq.stack([t(p) for t, p in zip(self.transforms, self._slice(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return mq.stack([t.inv(p) for t, p in zip(self.transforms, self._slice(y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Stacked."""
        parts = zip(self.transforms, self._slice(x), self._slice(y), strict=True)
        return mq.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)

    @property
    def bijective(self) -> Any:
        """Whether all are."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Theirs, stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Theirs, stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
