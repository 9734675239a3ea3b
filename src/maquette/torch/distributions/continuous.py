"""Distributions over the real line: `Normal`, `Laplace`, `Uniform`, `Exponential`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.core.dtype import finfo
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions.base import Distribution, Value, broadcast_all


class Normal(Distribution):
    """The normal distribution of mean loc and standard deviation scale."""

    has_rsample = True
    parameter_names = ("loc", "scale")

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The square of scale."""
        return self.scale.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """loc + scale * noise."""
        shape = self._extended_shape(sample_shape)
        noise = mq.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        squared = (value - self.loc) ** 2 / (2 * self.variance)
        return -squared - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        return 0.5 * (1 + mq.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        return self.loc + self.scale * mq.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """1/2 + log(2 pi)/2 + log scale."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + mq.log(self.scale)


class Laplace(Distribution):
    """The two-sided exponential distribution around loc."""

    has_rsample = True
    parameter_names = ("loc", "scale")

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Twice the square of scale."""
        return 2 * self.scale.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """loc and a logarithm of uniform noise on either side."""
        shape = self._extended_shape(sample_shape)
        noise = mq.rand(shape, dtype=self.loc.dtype, device=self.loc.device) * 2 - 1
        size = mq.log1p(-noise.abs().clamp(min=finfo(self.loc.dtype).tiny))
        return self.loc - self.scale * noise.sign() * size

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return -mq.log(2 * self.scale) - mq.abs(value - self.loc) / self.scale

    def entropy(self) -> Tensor:
        """1 + log(2 scale)."""
        return 1 + mq.log(2 * self.scale)


class Uniform(Distribution):
    """Every value in [low, high) alike."""

    has_rsample = True
    parameter_names = ("low", "high")

    def __init__(self, low: Value, high: Value, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        """A twelfth of the square of the width."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """low + width * noise."""
        shape = self._extended_shape(sample_shape)
        noise = mq.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Minus the logarithm of the width; minus infinity outside."""
        inside = self.low.le(value) & self.high.gt(value)
        return mq.log(inside.to(self.low.dtype)) - mq.log(self.high - self.low)

    def entropy(self) -> Tensor:
        """The logarithm of the width."""
        return mq.log(self.high - self.low)


class Exponential(Distribution):
    """Waiting times between events of this rate."""

    has_rsample = True
    parameter_names = ("rate",)

    def __init__(self, rate: Value, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Tensor:
        """One over the rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """One over the square of the rate."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Noise over the rate."""
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return self.rate.log() - self.rate * value

    def entropy(self) -> Tensor:
        """1 - log rate."""
        return 1.0 - mq.log(self.rate)
