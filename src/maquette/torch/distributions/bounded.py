"""Distributions on circles and unit intervals, and mixtures: von Mises, continuous Bernoulli."""

from __future__ import annotations

import math
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.dtype import bool_, float64
from maquette.core.size import Size
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.base import (
    NO_SHAPE,
    Distribution,
    ExponentialFamily,
    Shape,
)
from maquette.torch.distributions.discrete import Categorical
from maquette.torch.distributions.utils import (
    Value,
    broadcast_all,
    clamp_probs,
    has_data,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


def _log_bessel(x: Tensor, order: int) -> Tensor:
    scaled = mq.special_i0e(x) if order == 0 else mq.special_i1e(x)
    return scaled.log() + x


class VonMises(Distribution):
    """Angles around loc: density ``exp(concentration cos(x - loc)) / (2 pi I0)``."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    own_dims = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Value, concentration: Value, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        found = self.concentration * mq.cos(value - self.loc)
        return found - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Angles in [-pi, pi), by rejection from a wrapped Cauchy distribution (Best, Fisher)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, k = self.loc.to(float64), self.concentration.to(float64)
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = mq.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
            x = mq.empty(shape, dtype=float64, device=self.loc.device)
            done = mq.zeros(shape, dtype=bool_, device=x.device)
            while not bool(done.all()):
                u1, u2, u3 = mq.rand((3, *x.shape), dtype=float64, device=x.device).unbind()
                f = mq.cos(math.pi * u1)
                z = (1 + r * f) / (r + f)
                c = k * (r - z)
                taken = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = mq.where(taken, (u3 - 0.5).sign() * z.clamp(-1, 1).acos(), x)
                done = done | taken
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """loc."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """1 - I1 / I0, the circular variance."""
        k = self.concentration
        return 1 - (_log_bessel(k, 1) - _log_bessel(k, 0)).exp()


class ContinuousBernoulli(ExponentialFamily):
    """Density proportional to ``probs^x (1 - probs)^(1 - x)`` in [0, 1] (Loaiza-Ganem, 2019).

    lims: between these probabilities, series replace formulas that divide by nearly nothing.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    own_dims = {"probs": 0, "logits": 0, "_param": 0}
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Value | None = None,
        logits: Value | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            given = broadcast_all(probs)[0]
            inside = not has_data(given) or bool(constraints.unit_interval.check(given).all())
            if validate_args is not None and not inside:
                raise ValueError(f"The parameter probs has invalid values: {given}")
            self.probs = clamp_probs(given)
        else:
            assert logits is not None
            self.logits = broadcast_all(logits)[0]
        self._param: Tensor = self.probs if probs is not None else self.logits
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter; it is no probability."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self) -> Size:
        """Of the parameter that was given."""
        return self._param.size()

    def _outside(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self) -> Tensor:
        """The parameter, moved out of the middle."""
        edge = self._lims[0] * mq.ones_like(self.probs)
        return mq.where(self._outside(), self.probs, edge)

    def _log_norm(self) -> Tensor:
        cut = self._cut()
        below = mq.where(cut <= 0.5, cut, mq.zeros_like(cut))
        above = mq.where(cut >= 0.5, cut, mq.ones_like(cut))
        spread = mq.where(cut <= 0.5, mq.log1p(-2.0 * below), mq.log(2.0 * above - 1.0))
        exact = mq.log(mq.abs(mq.log1p(-cut) - mq.log(cut))) - spread
        x = (self.probs - 0.5).pow(2)
        return mq.where(self._outside(), exact, math.log(2.0) + (4.0 / 3 + 104.0 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        """The mean (*batch)."""
        cut = self._cut()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (mq.log1p(-cut) - mq.log(cut))
        x = self.probs - 0.5
        return mq.where(self._outside(), exact, 0.5 + (1.0 / 3 + 16.0 / 45 * x.pow(2)) * x)

    @property
    def variance(self) -> Tensor:
        """The variance (*batch)."""
        cut = self._cut()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2)
        exact = exact + 1.0 / (mq.log1p(-cut) - mq.log(cut)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return mq.where(self._outside(), exact, 1.0 / 12 - (1.0 / 15 - 128.0 / 945 * x) * x)

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """The values that less has uniform probabilities of."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(mq.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        crossed = F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -crossed + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut()
        exact = mq.pow(cut, value) * mq.pow(1.0 - cut, 1.0 - value) + cut - 1.0
        found = mq.where(self._outside(), exact / (2.0 * cut - 1.0), value)
        upper = mq.where(mq.ge(value, 1.0), mq.ones_like(found), found)
        return mq.where(mq.le(value, 0.0), mq.zeros_like(found), upper)

    def icdf(self, value: Tensor) -> Tensor:
        """The value that less has this probability of."""
        cut = self._cut()
        above = mq.log1p(-cut + value * (2.0 * cut - 1.0)) - mq.log1p(-cut)
        return mq.where(self._outside(), above / (mq.log(cut) - mq.log1p(-cut)), value)

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        low, high = mq.log1p(-self.probs), mq.log(self.probs)
        return self.mean * (low - high) - self._log_norm() - low

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of one
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = mq.where(outside, x, (self._lims[0] - 0.5) * mq.ones_like(x))
        exact = mq.log(mq.abs(mq.special_expm1(cut))) - mq.log(mq.abs(cut))
        return mq.where(outside, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)


class MixtureSameFamily(Distribution):
    """Draws of one of several distributions, the last dimension of the components' batch."""

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of "
                "torch.distributions.Distribution"
            )
        batch = component_distribution.batch_shape[:-1]
        for mine, other in zip(
            reversed(mixture_distribution.batch_shape), reversed(batch), strict=False
        ):
            if mine not in (1, other) and other != 1:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is "
                    f"not compatible with `component_distribution.batch_shape`({batch})"
                )
        known = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if known != components:
            raise ValueError(
                f"`mixture_distribution component` ({known}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = components
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parts expanded."""
        made = super().expand(batch_shape, _instance)
        inner = (*batch_shape, self._num_component)
        made._component_distribution = self._component_distribution.expand(inner)
        made._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return made

    @constraints.dependent_property
    def support(self) -> Any:
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Which component is drawn."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs: Tensor = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * self._event_ndims))

    @property
    def _along(self) -> int:
        return -1 - self._event_ndims

    @property
    def mean(self) -> Tensor:
        """The components', weighted."""
        return mq.sum(self._weights() * self._component_distribution.mean, self._along)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances plus the variance of the means."""
        weights = self._weights()
        within = mq.sum(weights * self._component_distribution.variance, self._along)
        off = self._component_distribution.mean - self.mean.unsqueeze(self._along)
        return within + mq.sum(weights * off.pow(2.0), self._along)

    def cdf(self, x: Tensor) -> Tensor:
        """The components', weighted."""
        found = self._component_distribution.cdf(self._padded(x))
        return mq.sum(found * self._mixture_distribution.probs, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        """The logarithm of the weighted densities."""
        if self._validate_args:
            self._validate_sample(x)
        found = self._component_distribution.log_prob(self._padded(x))
        weights = mq.log_softmax(self._mixture_distribution.logits, -1)
        return mq.logsumexp(found + weights, -1)

    def __repr__(self) -> str:
        parts = f"{self._mixture_distribution},\n  {self._component_distribution}"
        return f"MixtureSameFamily(\n  {parts})"

    def _padded(self, value: Tensor) -> Tensor:
        return value.unsqueeze(self._along)

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """A component's draw, of the component drawn."""
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            ones = (1,) * (self._event_ndims + 1)
            index = chosen.reshape((*chosen.shape, *ones))
            repeated = (*(1,) * (chosen.dim() + 1), *self._event_shape)
            place = len(sample_shape) + len(self._batch_shape)
            return drawn.gather(place, index.repeat(repeated)).squeeze(place)
