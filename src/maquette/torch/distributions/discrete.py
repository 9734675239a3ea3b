"""Distributions over numbered events: `Bernoulli` and `Categorical`.

Both take probabilities or logits and compute the one from the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.core.dtype import finfo, int64
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions.base import Distribution, Value, broadcast_all, clamped


def _check_one(probs: object, logits: object) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Bernoulli(Distribution):
    """1 with probability probs, else 0."""

    parameter_names = ("probs",)

    def __init__(
        self,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _check_one(probs, logits)
        self._probs = None if probs is None else broadcast_all(probs)[0]
        self._logits = None if logits is None else broadcast_all(logits)[0]
        super().__init__(self.logits.shape)

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return mq.sigmoid(self._logits) if self._probs is None else self._probs

    @property
    def logits(self) -> Tensor:
        """The logarithm of the odds of 1."""
        if self._logits is None:
            probs = clamped(self.probs)
            self._logits = mq.log(probs) - mq.log1p(-probs)
        return self._logits

    @property
    def mean(self) -> Tensor:
        """probs."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Ones and zeros (*sample, *batch)."""
        return mq.bernoulli(self.probs.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of ones and zeros."""
        logits, values = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, values, reduction="none")

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Categorical(Distribution):
    """Event i of the last dimension with probability probs[..., i], which are normalized."""

    parameter_names = ("probs",)
    probs: Tensor
    logits: Tensor

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _check_one(probs, logits)
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = mq.log(clamped(self.probs))
        elif logits is not None:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
            self.probs = F.softmax(self.logits, dim=-1)
        self._num_events = self.logits.size(-1)
        super().__init__(self.logits.shape[:-1])

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Numbers of events (*sample, *batch), int64."""
        flat = self.probs.detach().reshape(-1, self._num_events)
        count = 1
        for size in sample_shape:
            count *= size
        return mq.multinomial(flat, count, True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of events."""
        places = value.to(int64).unsqueeze(-1)
        places, logits = broadcast_all(places, self.logits)
        return logits.gather(-1, places[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)
