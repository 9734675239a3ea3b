"""`TransformedDistribution`, and distributions that are transforms of others: log-normal ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.dtype import finfo
from maquette.core.size import Size
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.base import NO_SHAPE, Distribution, Shape
from maquette.torch.distributions.continuous import Cauchy, Exponential, Normal, Uniform
from maquette.torch.distributions.gammas import Gamma
from maquette.torch.distributions.independent import Independent
from maquette.torch.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
    Transform,
)
from maquette.torch.distributions.utils import (
    Value,
    broadcast_all,
    euler_constant,
    summed,
)

_HERE = __name__.rpartition(".")[0]


class TransformedDistribution(Distribution):
    """What comes of a distribution's draws through transforms, the first applied first.

    Raises ValueError for transforms that do not fit the base distribution.
    """

    arg_constraints: Any = {}
    transforms: list[Any]
    _mq_ours: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Asked now: under `install` ours say later that they are in torch, as others may.
        cls._mq_ours = cls.__module__.startswith(f"{_HERE}.")

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        given = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(each, Transform) for each in given):
            raise ValueError(
                f"transforms must be a Transform or a list of Transforms, but was {transforms}"
            )
        self.transforms = given
        through = ComposeTransform(given)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < through.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{through.domain.event_dim}, but got {base_shape}."
            )
        shape = through.forward_shape(base_shape)
        needed = through.inverse_shape(shape)
        if needed != base_shape:
            base_distribution = base_distribution.expand(_batch_of(needed, base_distribution))
        missing = through.domain.event_dim - len(base_distribution.event_shape)
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist: Any = base_distribution
        event = _event_dim(through, base_distribution)
        cut = len(shape) - event
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its base expanded."""
        made: Any = _instance
        if made is None:
            kind = type(self)
            if kind._mq_ours:
                made = kind.__new__(kind)
            else:  # a program's class has parameters of its own
                made = self._get_checked_instance(TransformedDistribution)
        made._validate_args = self._validate_args
        made.transforms = self.transforms
        shape = Size((*batch_shape, *self.event_shape))
        for each in reversed(self.transforms):
            shape = each.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        made.base_dist = self.base_dist.expand(shape[:cut])
        made._batch_shape, made._event_shape = Size(batch_shape), self._event_shape
        if self.own_dims:
            made.__dict__.update(self._expanded_parameters(made._batch_shape))
            made.transforms = made._parts()
        return made

    def _parts(self) -> list[Transform]:
        """The transforms, where they are made of parameters of this class."""
        return self.transforms

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The last transform's codomain."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self.event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # the base's
        """The base's."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Draws of the base, transformed."""
        with no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Draws of the base, transformed."""
        return self._through(self.base_dist.rsample(sample_shape))

    def _through(self, x: Any) -> Any:
        for each in self.transforms:
            x = each(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """The base's of the inverse, less how the transforms stretch."""
        if self._validate_args:
            self._validate_sample(value)
        event, y = len(self.event_shape), value
        total: Any = 0.0
        for each in reversed(self.transforms):
            x = each.inv(y)
            event += each.domain.event_dim - each.codomain.event_dim
            stretch = each.log_abs_det_jacobian(x, y)
            total = total - summed(stretch, event - each.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        found: Tensor = total + summed(base, event - len(self.base_dist.event_shape))
        return found

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        sign: Any = 1
        for each in self.transforms:
            sign = sign * each.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """The base's of the inverse."""
        if self._validate_args:
            self._validate_sample(value)
        for each in reversed(self.transforms):
            value = each.inv(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The base's, transformed."""
        value = self._monotonize_cdf(value)
        found: Tensor = self._through(self.base_dist.icdf(value))
        return found


def _batch_of(shape: Size, base: Distribution) -> Size:
    return Size(shape[: len(shape) - len(base.event_shape)])


def _event_dim(through: ComposeTransform, base: Distribution) -> int:
    change = through.codomain.event_dim - through.domain.event_dim
    return int(max(through.codomain.event_dim, len(base.event_shape) + change))


class LogNormal(TransformedDistribution):
    """exp of a normal number."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        found: Tensor = self.base_dist.loc
        return found

    @property
    def scale(self) -> Tensor:
        """The deviation of the logarithm."""
        found: Tensor = self.base_dist.scale
        return found

    @property
    def mean(self) -> Tensor:
        """exp(loc + scale^2 / 2)."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        """exp(loc - scale^2)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(scale^2) - 1) exp(2 loc + scale^2)."""
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        """The normal number's, plus loc."""
        found: Tensor = self.base_dist.entropy() + self.loc
        return found


class LogisticNormal(TransformedDistribution):
    """Shares by stick breaking of normal numbers."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        base: Distribution = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Of the normal numbers."""
        found: Tensor = self.base_dist.base_dist.loc
        return found

    @property
    def scale(self) -> Tensor:
        """Of the normal numbers."""
        found: Tensor = self.base_dist.base_dist.scale
        return found


class _Half(TransformedDistribution):
    """The absolute value of a number around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    @property
    def scale(self) -> Tensor:
        """Of the number."""
        found: Tensor = self.base_dist.scale
        return found

    def _through(self, x: Tensor) -> Tensor:
        return x.abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """Twice the density of the number, for values from 0."""
        if self._validate_args:
            self._validate_sample(value)
        value = mq.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        density = self.base_dist.log_prob(value) + math.log(2)
        return mq.where(value >= 0, density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """2 F - 1."""
        if self._validate_args:
            self._validate_sample(value)
        found: Tensor = 2 * self.base_dist.cdf(value) - 1
        return found

    def icdf(self, prob: Tensor) -> Tensor:
        """The value that less has this probability of."""
        found: Tensor = self.base_dist.icdf((prob + 1) / 2)
        return found

    def entropy(self) -> Tensor:
        """The number's, less log 2."""
        found: Tensor = self.base_dist.entropy() - math.log(2)
        return found

    @property
    def mode(self) -> Tensor:
        """0."""
        return mq.zeros_like(self.scale)


class HalfNormal(_Half):
    """|x|, x normal of mean 0."""

    def __init__(self, scale: Value, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), [], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """scale sqrt(2 / pi)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """scale^2 (1 - 2 / pi)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|x|, x Cauchy around 0."""

    def __init__(self, scale: Value, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), [], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return self.scale.new_full(self._extended_shape(), math.inf)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        found: Tensor = self.base_dist.variance
        return found


class InverseGamma(TransformedDistribution):
    """1 / x, x a gamma number."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(
        self, concentration: Value, rate: Value, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Of the gamma number."""
        found: Tensor = self.base_dist.concentration
        return found

    @property
    def rate(self) -> Tensor:
        """Of the gamma number."""
        found: Tensor = self.base_dist.rate
        return found

    @property
    def mean(self) -> Tensor:
        """rate / (a - 1); infinite up to a = 1."""
        a = self.concentration
        return mq.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        """rate / (a + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """rate^2 / ((a - 1)^2 (a - 2)); infinite up to a = 2."""
        a = self.concentration
        return mq.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """a + log rate + log gamma(a) - (1 + a) digamma(a)."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Gumbel(TransformedDistribution):
    """loc - scale * log(-log u), u uniform: what the largest of many numbers tends to."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    own_dims = {"loc": 0, "scale": 0}

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        low = mq.full_like(self.loc, info.tiny)
        base = Uniform(low, mq.full_like(self.loc, 1 - info.eps), validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args=validate_args)

    def _parts(self) -> list[Transform]:
        return [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-mq.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]

    def log_prob(self, value: Tensor) -> Tensor:
        """y - exp(y) - log scale, of y = (loc - value) / scale."""
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """loc + scale * Euler's constant."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """scale pi / sqrt(6)."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        """Its square."""
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        """log scale + 1 + Euler's constant."""
        return self.scale.log() + (1 + euler_constant)


class Pareto(TransformedDistribution):
    """scale * exp(x / alpha), x exponential: a tail that falls as a power."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    own_dims = {"alpha": 0, "scale": 0}

    def __init__(self, scale: Value, alpha: Value, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args=validate_args)

    def _parts(self) -> list[Transform]:
        return [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]

    @property
    def mean(self) -> Tensor:
        """alpha scale / (alpha - 1); infinite up to alpha = 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """scale^2 alpha / ((alpha - 1)^2 (alpha - 2)); infinite up to alpha = 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From scale on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        """log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """scale * x ** (1 / concentration), x exponential."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    own_dims = {"scale": 0, "concentration": 0, "concentration_reciprocal": 0}

    def __init__(
        self, scale: Value, concentration: Value, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(mq.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args=validate_args)

    def _parts(self) -> list[Transform]:
        power = PowerTransform(exponent=self.concentration_reciprocal)
        return [power, AffineTransform(loc=0, scale=self.scale)]

    @property
    def mean(self) -> Tensor:
        """scale gamma(1 + 1 / k)."""
        return self.scale * mq.exp(mq.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        """scale ((k - 1) / k)^(1 / k)."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """scale^2 (gamma(1 + 2 / k) - gamma(1 + 1 / k)^2)."""
        inverse = self.concentration_reciprocal
        second = mq.exp(mq.lgamma(1 + 2 * inverse))
        return self.scale.pow(2) * (second - mq.exp(2 * mq.lgamma(1 + inverse)))

    def entropy(self) -> Tensor:
        """Euler's constant * (1 - 1 / k) + log(scale / k) + 1."""
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + mq.log(self.scale * inverse) + 1


class Kumaraswamy(TransformedDistribution):
    """(1 - u ** (1 / b)) ** (1 / a), u uniform: much like beta, of a, b = concentration1, 0."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    own_dims = {"concentration1": 0, "concentration0": 0}

    def __init__(
        self, concentration1: Value, concentration0: Value, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros, ones = mq.zeros_like(self.concentration0), mq.ones_like(self.concentration0)
        base = Uniform(zeros, ones, validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args=validate_args)

    def _parts(self) -> list[Transform]:
        return [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]

    def _moment(self, n: int) -> Tensor:
        a = 1 + n / self.concentration1
        logs = mq.lgamma(a) + mq.lgamma(self.concentration0) - mq.lgamma(a + self.concentration0)
        return self.concentration0 * mq.exp(logs)

    @property
    def mean(self) -> Tensor:
        """The first moment."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN where there is none inside."""
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * ((-b).log1p() - (-a * b).log1p())
        log_mode[(b < 1) | (a < 1)] = math.nan
        return log_mode.exp()  # after the write: `exp` saves what it gives

    @property
    def variance(self) -> Tensor:
        """The second moment less the mean squared."""
        return self._moment(2) - mq.pow(self.mean, 2)

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        a, b = self.concentration1, self.concentration0
        harmonic = mq.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - mq.log(a) - mq.log(b)
