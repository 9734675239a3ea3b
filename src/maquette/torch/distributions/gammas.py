"""Distributions made of gamma numbers: gamma, beta, Dirichlet, chi-squared, Student's t, F."""

from __future__ import annotations

import math

from maquette.api import functions as mq
from maquette.core.dtype import finfo
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.base import (
    NO_SHAPE,
    Distribution,
    ExponentialFamily,
    Shape,
)
from maquette.torch.distributions.utils import Value, broadcast_all


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of scale 1."""
    found: Tensor = mq._standard_gamma(concentration)
    return found


_standard_gamma = standard_gamma  # PyTorch's name, which libraries import


class Gamma(ExponentialFamily):
    """Density ``rate^a x^(a - 1) exp(-rate x) / gamma(a)``, of a = concentration, for x > 0."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    own_dims = {"concentration": 0, "rate": 0}
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: Value, rate: Value, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) / rate, or 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """concentration / rate^2."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Standard gamma numbers / rate; gradients reach both parameters."""
        shape = self._extended_shape(sample_shape)
        drawn = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        drawn.detach().clamp_(min=finfo(drawn.dtype).tiny)  # no zeros: their logarithm is wanted
        return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        value = mq.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        powers = mq.xlogy(a, self.rate) + mq.xlogy(a - 1, value)
        return powers - self.rate * value - mq.lgamma(a)

    def entropy(self) -> Tensor:
        """a - log rate + log gamma(a) + (1 - a) digamma(a)."""
        a = self.concentration
        return a - mq.log(self.rate) + mq.lgamma(a) + (1.0 - a) * mq.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]  # of two
        return mq.lgamma(x + 1) + (x + 1) * mq.log(-y.reciprocal())

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        if self._validate_args:
            self._validate_sample(value)
        return mq.special_gammainc(self.concentration, self.rate * value)


class Chi2(Gamma):
    """The sum of df squared standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Value, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """How many numbers are summed."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Shares that sum to one, along the last dimension: gamma numbers over their sum."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    own_dims = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Shares (*sample, *batch, n)."""
        return dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return mq.xlogy(a - 1.0, value).sum(-1) + mq.lgamma(a.sum(-1)) - mq.lgamma(a).sum(-1)

    @property
    def mean(self) -> Tensor:
        """The shares of the concentrations."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The shares of ``concentration - 1``; a corner where all are below 1."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = (self.concentration < 1).all(dim=-1)
        largest = F.one_hot(mode[corner].argmax(dim=-1), above.shape[-1])
        mode[corner] = largest.to(mode)
        return mode

    @property
    def variance(self) -> Tensor:
        """a (sum - a) / (sum^2 (sum + 1))."""
        total = self.concentration.sum(-1, True)
        a = self.concentration
        return a * (total - a) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (
            mq.lgamma(a).sum(-1)
            - mq.lgamma(total)
            - (k - total) * mq.digamma(total)
            - ((a - 1.0) * mq.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of one
        return x.lgamma().sum(-1) - mq.lgamma(x.sum(-1))


def dirichlet(concentration: Tensor) -> Tensor:
    """Shares along the last dimension; gradients reach the concentrations."""
    found: Tensor = mq._sample_dirichlet(concentration)
    return found


class Beta(ExponentialFamily):
    """Density ``x^(a - 1) (1 - x)^(b - 1) / B(a, b)`` in (0, 1); a, b: concentration1, 0."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Value, concentration0: Value, validate_args: bool | None = None
    ) -> None:
        pair = mq.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Beta:
        """The distribution with its parameters expanded."""
        made: Beta = super().expand(batch_shape, _instance)
        made._dirichlet = self._dirichlet.expand(batch_shape)
        return made

    @property
    def concentration1(self) -> Tensor:
        """a."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """b."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """a / (a + b)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """a b / ((a + b)^2 (a + b + 1))."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """The first of two shares."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(mq.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]  # of two
        return mq.lgamma(x) + mq.lgamma(y) - mq.lgamma(x + y)


class StudentT(Distribution):
    """loc + scale * a normal number over the root of a chi-squared one per degree of freedom."""

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    own_dims = {"df": 0, "loc": 0, "scale": 0}

    def __init__(
        self, df: Value, loc: Value = 0.0, scale: Value = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> StudentT:
        """The distribution with its parameters expanded."""
        made: StudentT = super().expand(batch_shape, _instance)
        made._chi2 = self._chi2.expand(batch_shape)
        return made

    @property
    def mean(self) -> Tensor:
        """loc; NaN up to one degree of freedom."""
        mean = self.loc.clone()
        mean[self.df <= 1] = math.nan
        return mean

    @property
    def mode(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """scale^2 df / (df - 2); infinite up to 2 degrees of freedom, NaN up to 1."""
        found = self.df.clone()
        many = self.df > 2
        found[many] = self.scale[many].pow(2) * self.df[many] / (self.df[many] - 2)
        found[(self.df <= 2) & (self.df > 1)] = math.inf
        found[self.df <= 1] = math.nan
        return found

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """loc + scale * x / sqrt(z / df), x normal and z chi-squared."""
        shape = self._extended_shape(sample_shape)
        x = mq.randn(shape, dtype=self.df.dtype, device=self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * mq.rsqrt(z / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + mq.lgamma(0.5 * self.df)
            - mq.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * mq.log1p(y**2.0 / self.df) - norm

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        beta = mq.lgamma(0.5 * self.df) + math.lgamma(0.5) - mq.lgamma(0.5 * (self.df + 1))
        slope = mq.digamma(0.5 * (self.df + 1)) - mq.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * slope + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared numbers, each per degree of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    own_dims = {"df1": 0, "df2": 0}

    def __init__(self, df1: Value, df2: Value, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> FisherSnedecor:
        """The distribution with its parameters expanded."""
        made: FisherSnedecor = super().expand(batch_shape, _instance)
        made._gamma1 = self._gamma1.expand(batch_shape)
        made._gamma2 = self._gamma2.expand(batch_shape)
        return made

    @property
    def mean(self) -> Tensor:
        """df2 / (df2 - 2); NaN up to 2."""
        df2 = self.df2.clone()
        df2[df2 <= 2] = math.nan
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN up to df1 = 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        mode[self.df1 <= 2] = math.nan
        return mode

    @property
    def variance(self) -> Tensor:
        """NaN up to df2 = 4."""
        df2 = self.df2.clone()
        df2[df2 <= 4] = math.nan
        above = 2 * df2.pow(2) * (self.df1 + df2 - 2)
        return above / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """A ratio of gamma numbers, kept from 0."""
        shape = self._extended_shape(sample_shape)
        x1 = self._gamma1.rsample(sample_shape).view(shape)
        x2 = self._gamma2.rsample(sample_shape).view(shape)
        tiny = finfo(x2.dtype).tiny
        x2.clamp_(min=tiny)
        ratio: Tensor = x1 / x2
        ratio.clamp_(min=tiny)
        return ratio

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        powers = a * ratio.log() + (a - 1) * value.log()
        return norm + powers - (a + b) * mq.log1p(ratio * value)
