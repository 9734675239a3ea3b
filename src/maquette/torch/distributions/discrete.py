"""Distributions over whole numbers: Bernoulli, categorical, binomial, Poisson and their like.

Those of probabilities take probabilities or logits, and compute the one from the other.
"""

from __future__ import annotations

from typing import Any

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.dtype import finfo, int64
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
from maquette.torch.distributions.gammas import Gamma
from maquette.torch.distributions.utils import (
    Value,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

_ODDS = {"probs": constraints.unit_interval, "logits": constraints.real}
_SHARES = {"probs": constraints.simplex, "logits": constraints.real_vector}


def check_one(probs: object, logits: object) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Binary(Distribution):
    """Of a probability, given as itself or as the logarithm of its odds."""

    own_dims = {"probs": 0, "logits": 0, "total_count": 0}
    _param: Tensor

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """Of the parameter that was given."""
        return self._param.size()

    def _set(self, probs: Value | None, logits: Value | None, count: Value | None = None) -> None:
        check_one(probs, logits)
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        assert given is not None
        if count is None:
            self.__dict__[name] = broadcast_all(given)[0]
        else:
            self.total_count, self.__dict__[name] = broadcast_all(count, given)
            self.total_count = self.total_count.type_as(self.__dict__[name])
        self._param = self.__dict__[name]

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parameters expanded."""
        made = super().expand(batch_shape, _instance)
        made._param = made.__dict__["probs" if "probs" in self.__dict__ else "logits"]
        return made

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)


class Bernoulli(Binary, ExponentialFamily):
    """1 with probability probs, else 0."""

    arg_constraints = _ODDS
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """probs."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier of 0 and 1; NaN where both are as likely."""
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = float("nan")
        return mode

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Ones and zeros (*sample, *batch)."""
        with no_grad():
            return mq.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of ones and zeros."""
        if self._validate_args:
            self._validate_sample(value)
        logits, values = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, values, reduction="none")

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1."""
        return _counted(2, self._param, self._batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (mq.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of one
        return mq.log1p(mq.exp(x))


def _counted(count: int, like: Tensor, batch: Shape, expand: bool, kind: Any = None) -> Tensor:
    values = mq.arange(count, dtype=kind or like.dtype, device=like.device)
    values = values.view((-1,) + (1,) * len(batch))
    return values.expand((-1, *batch)) if expand else values


class Geometric(Binary):
    """How many failures there are before the first success of probability probs."""

    arg_constraints = _ODDS
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None:
            given = self.probs
            if given.fake_mode is None and not given.is_meta and not bool((given > 0).all()):
                raise ValueError(
                    f"Expected parameter probs ({type(given).__name__} of shape "
                    f"{tuple(given.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{given[given <= 0]}"
                )

    @property
    def mean(self) -> Tensor:
        """1 / probs - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """0."""
        return mq.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """(1 / probs - 1) / probs."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Counts (*sample, *batch)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            tiny = finfo(self.probs.dtype).tiny
            u = self.probs.new_empty(shape).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of counts."""
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone()
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropy of one trial over the probability."""
        return (
            F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
            / self.probs
        )


class Binomial(Binary):
    """How many of total_count trials succeed."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_ODDS}
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Value = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits, total_count)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """n p."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """floor((n + 1) p), at most n."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Counts (*sample, *batch)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return mq.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of counts."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        choices = mq.lgamma(n + 1) - mq.lgamma(value + 1) - mq.lgamma(n - value + 1)
        # Written so that its slope at 0 is one half.
        logits = self.logits
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        norm = n * positive + n * mq.log1p(mq.exp(-mq.abs(self.logits)))
        return value * self.logits + choices - norm

    def entropy(self) -> Tensor:
        """The entropy (*batch), by all counts; NotImplementedError for counts that differ."""
        total = int(self.total_count.max())
        if not bool(self.total_count.min() == total):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(mq.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to total_count, which is to be the same for all."""
        total = int(self.total_count.max())
        if not bool(self.total_count.min() == total):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return _counted(1 + total, self._param, self._batch_shape, expand)


class NegativeBinomial(Binary):
    """How many successes there are before total_count failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Value,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits, total_count)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """n times the odds."""
        return self.total_count * mq.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        """floor((n - 1) * odds), or 0."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """The mean over the probability of a failure."""
        return self.mean / mq.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, mq.exp(-self.logits), validate_args=False)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parameters expanded."""
        made = super().expand(batch_shape, _instance)
        made.__dict__.pop("_gamma", None)
        return made

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Counts (*sample, *batch)."""
        with no_grad():
            return mq.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of counts."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalized = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        norm = -mq.lgamma(n + value) + mq.lgamma(1.0 + value) + mq.lgamma(n)
        return unnormalized - norm.masked_fill(n + value == 0.0, 0.0)


class Poisson(ExponentialFamily):
    """Counts of mean rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    own_dims = {"rate": 0}

    def __init__(self, rate: Value, validate_args: bool | None = None) -> None:
        self.rate = broadcast_all(rate)[0]
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """floor(rate)."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """rate."""
        return self.rate

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Counts (*sample, *batch)."""
        with no_grad():
            return mq.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of counts."""
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (mq.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of one
        return mq.exp(x)


# --- one of several ----------------------------------------------------------------------------


class Categorical(Distribution):
    """Event i with the share probs[..., i] of the last dimension, which are normalized."""

    arg_constraints = _SHARES
    has_enumerate_support = True
    own_dims = {"probs": 1, "logits": 1, "_param": 1}
    _param: Tensor

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        check_one(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = probs / probs.sum(-1, keepdim=True)
            self._param = self.probs
        elif logits is not None:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
            self._param = self.logits
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the shares."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The shares."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """Of the shares."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The numbers of the events."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: numbers of events are names."""
        return self.probs.new_full(self._extended_shape(), float("nan"))

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The likeliest event."""
        return self.probs.argmax(dim=-1)

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Numbers of events (*sample, *batch), int64."""
        flat = self.probs.detach().reshape(-1, self._num_events)
        count = Size(sample_shape).numel()
        return mq.multinomial(flat, count, True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of events."""
        if self._validate_args:
            self._validate_sample(value)
        together: Any = mq.broadcast_tensors(value.to(int64).unsqueeze(-1), self.logits)
        places, logits = together
        return logits.gather(-1, places[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The numbers of all events."""
        return _counted(self._num_events, self._param, self._batch_shape, expand, int64)


class OneHotCategorical(Distribution):
    """`Categorical` whose draws are vectors with a one at the event."""

    arg_constraints = _SHARES
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parameters expanded."""
        made = super().expand(batch_shape, _instance)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The shares."""
        found: Tensor = self._categorical.probs
        return found

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        found: Tensor = self._categorical.logits
        return found

    @property
    def mean(self) -> Tensor:
        """The shares."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """A one at the likeliest event."""
        found = self.probs.argmax(dim=-1)
        return F.one_hot(found, num_classes=self.probs.shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> Size:
        """Of the shares."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Vectors (*sample, *batch, n) with one 1."""
        events = self._categorical._num_events
        return F.one_hot(self._categorical.sample(sample_shape), events).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of vectors."""
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All vectors with one 1."""
        n = self.event_shape[0]
        values = mq.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *(1,) * len(self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws pass gradients to the shares as if they were the shares."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Draws, plus the shares less the shares without gradient."""
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(Distribution):
    """How often each event comes in total_count draws; the counts are the last dimension."""

    arg_constraints = _SHARES
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parameters expanded."""
        made = super().expand(batch_shape, _instance)
        made._categorical = self._categorical.expand(batch_shape)
        made._binomial = self._binomial.expand((*batch_shape, *self.event_shape))
        return made

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that sum to total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """The shares."""
        found: Tensor = self._categorical.probs
        return found

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        found: Tensor = self._categorical.logits
        return found

    @property
    def param_shape(self) -> Size:
        """Of the shares."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        """n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Counts (*sample, *batch, n)."""
        events = self._categorical.sample((self.total_count, *sample_shape))
        events = events.permute((*range(1, events.dim()), 0))
        counts = events.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, events, mq.ones_like(events))
        return counts.type_as(self.probs)

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        n = mq.tensor(self.total_count)
        first = n * self._categorical.entropy() - mq.lgamma(n + 1)
        support = self._binomial.enumerate_support(expand=False)[1:]
        probs = mq.exp(self._binomial.log_prob(support))
        return first + (probs * mq.lgamma(support + 1)).sum((0, -1))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of counts."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone()
        factorials = mq.lgamma(value.sum(-1) + 1) - mq.lgamma(value + 1).sum(-1)
        logits[(value == 0) & (logits == -float("inf"))] = 0
        return factorials + (logits * value).sum(-1)


__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "clamp_probs",
]
