"""Distributions of real numbers with formulas of their own: normal, Laplace, Cauchy, others."""

from __future__ import annotations

import math
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.dtype import finfo
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.base import (
    NO_SHAPE,
    Distribution,
    ExponentialFamily,
    Shape,
)
from maquette.torch.distributions.utils import Value, broadcast_all

_LOC_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class Normal(ExponentialFamily):
    """The normal distribution of mean loc and standard deviation scale."""

    arg_constraints = _LOC_SCALE
    support = constraints.real
    has_rsample = True
    own_dims = {"loc": 0, "scale": 0}
    _mean_carrier_measure = 0

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
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

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Draws (*sample, *batch)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return mq.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """loc + scale * noise."""
        shape = self._extended_shape(sample_shape)
        noise = mq.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        squared = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -squared - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + mq.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        return self.loc + self.scale * mq.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """1/2 + log(2 pi)/2 + log scale."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + mq.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]  # of two
        return -0.25 * x.pow(2) / y + 0.5 * mq.log(-math.pi / y)


class Laplace(Distribution):
    """Density ``exp(-|x - loc| / scale) / (2 scale)``."""

    arg_constraints = _LOC_SCALE
    support = constraints.real
    has_rsample = True
    own_dims = {"loc": 0, "scale": 0}

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """2 scale^2."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """sqrt(2) scale."""
        return (2**0.5) * self.scale

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """loc - scale * sign(u) * log(1 - |u|), of u uniform in (-1, 1)."""
        shape = self._extended_shape(sample_shape)
        info = finfo(self.loc.dtype)
        u = self.loc.new_empty(shape).uniform_(info.eps - 1, 1)
        return self.loc - self.scale * u.sign() * mq.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        return -mq.log(2 * self.scale) - mq.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        if self._validate_args:
            self._validate_sample(value)
        off = value - self.loc
        return 0.5 - 0.5 * off.sign() * mq.expm1(-off.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * mq.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """1 + log(2 scale)."""
        return 1 + mq.log(2 * self.scale)


class Cauchy(Distribution):
    """Density ``1 / (pi scale (1 + ((x - loc) / scale)^2))``: without mean and variance."""

    arg_constraints = _LOC_SCALE
    support = constraints.real
    has_rsample = True
    own_dims = {"loc": 0, "scale": 0}

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return self.loc.new_full(self._extended_shape(), math.nan)

    @property
    def mode(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.loc.new_full(self._extended_shape(), math.inf)

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """loc + scale * a standard Cauchy number."""
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        off = ((value - self.loc) / self.scale) ** 2
        return -math.log(math.pi) - self.scale.log() - off.log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        if self._validate_args:
            self._validate_sample(value)
        return mq.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        return mq.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """log(4 pi scale)."""
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """Density 1 / (high - low) in [low, high)."""

    has_rsample = True
    own_dims = {"low": 0, "high": 0}

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """low < high."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    def __init__(self, low: Value, high: Value, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: no value is likelier."""
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        """The width / sqrt(12)."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """The width squared / 12."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """low + (high - low) * u."""
        shape = self._extended_shape(sample_shape)
        u = mq.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density: minus infinity outside."""
        if self._validate_args:
            self._validate_sample(value)
        above = self.low.le(value).type_as(self.low)
        below = self.high.gt(value).type_as(self.low)
        return mq.log(above.mul(below)) - mq.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log of the width."""
        return mq.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Density ``rate exp(-rate x)`` for x >= 0."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    own_dims = {"rate": 0}
    _mean_carrier_measure = 0

    def __init__(self, rate: Value, validate_args: bool | None = None) -> None:
        self.rate = broadcast_all(rate)[0]
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0."""
        return mq.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """1 / rate^2."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """A standard exponential number / rate."""
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        if self._validate_args:
            self._validate_sample(value)
        return 1 - mq.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        return -mq.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """1 - log rate."""
        return 1.0 - mq.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of one
        return -mq.log(-x)


class GeneralizedPareto(Distribution):
    """The tail of an excess over loc: ``(1 + k (x - loc) / scale)^(-1 / k - 1) / scale``."""

    arg_constraints = {**_LOC_SCALE, "concentration": constraints.real}
    has_rsample = True
    own_dims = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(
        self, loc: Value, scale: Value, concentration: Value, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def _flat(self) -> Tensor:
        """Where concentration is 0: the exponential distribution."""
        return mq.isclose(self.concentration, mq.zeros_like(self.concentration))

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """The value that less has a uniform probability of."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(mq.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        z, flat = self._z(value), self._flat
        k = mq.where(flat, mq.ones_like(self.concentration), self.concentration)
        y = 1 / k + mq.ones_like(z)
        where = mq.where(y == 0, y, y * mq.log1p(k * z))
        return -mq.log(self.scale) + mq.where(flat, -z, -where)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more."""
        if self._validate_args:
            self._validate_sample(value)
        z, flat = self._z(value), self._flat
        k = mq.where(flat, mq.ones_like(self.concentration), self.concentration)
        return mq.where(flat, -z, -mq.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of less."""
        return mq.log1p(-mq.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        return mq.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        flat = self._flat
        k = mq.where(flat, mq.ones_like(self.concentration), self.concentration)
        logu = mq.log1p(-value)
        return self.loc + self.scale * mq.where(flat, -logu, mq.expm1(-k * logu) / k)

    @property
    def mean(self) -> Tensor:
        """loc + scale / (1 - k); infinite from k = 1."""
        k = self.concentration
        kept = mq.where(k < 1, k, 0.5 * mq.ones_like(k))
        return mq.where(k < 1, self.loc + self.scale / (1 - kept), mq.full_like(k, math.inf))

    @property
    def variance(self) -> Tensor:
        """scale^2 / ((1 - k)^2 (1 - 2 k)); infinite from k = 1/2."""
        k = self.concentration
        kept = mq.where(k < 0.5, k, 0.25 * mq.ones_like(k))
        found = self.scale**2 / ((1 - kept) ** 2 * (1 - 2 * kept))
        return mq.where(k < 0.5, found + mq.zeros_like(self.loc), mq.full_like(k, math.inf))

    def entropy(self) -> Tensor:
        """1 + log scale + k."""
        return mq.log(self.scale) + self.concentration + 1

    @property
    def mode(self) -> Tensor:
        """loc."""
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From loc on; to ``loc - scale / k`` for negative k."""
        ends = self.loc - self.scale / self.concentration
        upper = mq.where(self.concentration < 0, ends, math.inf)
        return constraints.interval(self.loc, upper)
