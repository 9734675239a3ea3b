"""Transforms side by side, each of a part of its argument."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.transforms.base import Transform
from maquette.torch.distributions.utils import summed


class _Joined(Transform):
    """Several transforms of parts of one argument, along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    @property
    def bijective(self) -> Any:
        """Whether all are."""
        return all(t.bijective for t in self.transforms)


class CatTransform(_Joined):
    """Transforms of parts of a dimension, of given lengths."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths and transforms are as many, not {len(self.lengths)} and "
                f"{len(self.transforms)}"
            )

    @property
    def event_dim(self) -> int:
        """The most of any part."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Of the whole dimension."""
        return sum(self.lengths)

    def _again(self, cache_size: int) -> Transform:
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

    @constraints.dependent_property
    def domain(self) -> Any:
        """Theirs, side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Theirs, side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """A transform for each position along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _again(self, cache_size: int) -> Transform:
        return StackTransform(self.transforms, self.dim, cache_size)

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

    @constraints.dependent_property
    def domain(self) -> Any:
        """Theirs, stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Theirs, stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
