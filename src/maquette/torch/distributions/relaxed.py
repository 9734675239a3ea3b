"""Relaxed distributions: numbers that are nearly discrete, through which gradients pass."""

from __future__ import annotations

from typing import Any

from maquette.api import functions as mq
from maquette.core.size import Size
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.base import NO_SHAPE, Distribution, Shape
from maquette.torch.distributions.discrete import Binary, Categorical
from maquette.torch.distributions.transformed import TransformedDistribution
from maquette.torch.distributions.transforms import ExpTransform, SigmoidTransform
from maquette.torch.distributions.utils import Value, broadcast_all, clamp_probs


class LogitRelaxedBernoulli(Binary):
    """The logit of a relaxed Bernoulli number: (logits + a logistic number) / temperature."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Draws, which gradients pass."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(mq.rand(shape, dtype=probs.dtype, device=probs.device))
        logits = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return logits / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        off = logits - value.mul(self.temperature)
        return self.temperature.log() + off - 2 * off.exp().log1p()


class _Relaxed(TransformedDistribution):
    """Of a temperature, and probabilities or logits that the base has."""

    @property
    def temperature(self) -> Tensor:
        """How far from discrete."""
        found: Tensor = self.base_dist.temperature
        return found

    @property
    def logits(self) -> Tensor:
        """The base's."""
        found: Tensor = self.base_dist.logits
        return found

    @property
    def probs(self) -> Tensor:
        """The base's."""
        found: Tensor = self.base_dist.probs
        return found


class RelaxedBernoulli(_Relaxed):
    """A number in (0, 1) that is nearly 0 or 1 at low temperature (Maddison, Jang, 2016)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Tensor,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(Distribution):
    """The logarithms of relaxed one-hot vectors."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parameters expanded."""
        made = super().expand(batch_shape, _instance)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    @property
    def param_shape(self) -> Size:
        """Of the shares."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """Logarithms of the shares."""
        found: Tensor = self._categorical.logits
        return found

    @property
    def probs(self) -> Tensor:
        """The shares."""
        found: Tensor = self._categorical.probs
        return found

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Logarithms of shares of logits with Gumbel noise, over the temperature."""
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(mq.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-(u.log())).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        count = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        powers = mq.full_like(self.temperature, float(count)).lgamma()
        scale = powers - self.temperature.log().mul(-(count - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(_Relaxed):
    """Shares that are nearly a one-hot vector at low temperature."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
