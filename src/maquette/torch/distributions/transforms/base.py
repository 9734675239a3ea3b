"""`Transform`, its inverse, and transforms made of another: composed, taken together, reshaped."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.core.size import Size
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.constraints import Constraint
from maquette.torch.distributions.utils import summed

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
        self._cached_x_y: tuple[Any, Any] = (None, None)
        self._inv: Any = None
        super().__init__()  # a transform may be a module too

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
        return self if self._cache_size == cache_size else self._again(cache_size)

    def _again(self, cache_size: int) -> Transform:
        """One made of the same arguments; for subclasses with some of their own."""
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
        known, result = self._cached_x_y
        if x is known:
            return result
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        argument, known = self._cached_x_y
        if y is known:
            return argument
        x = self._inverse(y)
        self._cached_x_y = x, y
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
        return lifted(self.parts[0].domain, event)

    @property
    def codomain(self) -> Any:
        """What comes out of the last, with the dimensions that earlier ones gave."""
        if not self.parts:
            return constraints.real
        event = self.parts[0].domain.event_dim
        for part in self.parts:
            event += part.codomain.event_dim - part.domain.event_dim
            event = max(event, part.codomain.event_dim)
        return lifted(self.parts[-1].codomain, event)

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

    def _again(self, cache_size: int) -> Transform:
        return ComposeTransform(self.parts, cache_size=cache_size)

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


def lifted(constraint: Constraint, event: int) -> Constraint:
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

    def _again(self, cache_size: int) -> Transform:
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

    def _again(self, cache_size: int) -> Transform:
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
