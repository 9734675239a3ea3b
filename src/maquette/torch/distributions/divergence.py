"""`kl_divergence`, by pairs of classes; `register_kl` adds a pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from maquette.api import functions as mq
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions.base import Distribution
from maquette.torch.distributions.continuous import Normal, Uniform
from maquette.torch.distributions.discrete import Bernoulli, Categorical
from maquette.torch.distributions.independent import Independent, summed

Rule = Callable[[Any, Any], Tensor]  # of the classes that it is registered for
R = TypeVar("R", bound=Rule)
_rules: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[R], R]:
    """A decorator: the function computes the divergence for these classes and their subclasses."""

    def register(rule: R) -> R:
        _rules[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """How far q is from p (Kullback and Leibler 1951), (*batch), in nats.

    Raises NotImplementedError for classes without a rule.
    """
    for cls_p in type(p).__mro__:
        for cls_q in type(q).__mro__:
            rule = _rules.get((cls_p, cls_q))
            if rule is not None:
                return rule(p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
        f"{type(q).__name__}; add one with register_kl"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = F.softplus(-q.logits) - F.softplus(-p.logits)
    return p.probs * ones + (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = mq.where((q.probs == 0).expand_as(terms), float("inf"), terms)
    return mq.where((p.probs == 0).expand_as(terms), 0.0, terms).sum(-1)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    width = mq.log((q.high - q.low) / (p.high - p.low))
    return mq.where((q.low > p.low) | (q.high < p.high), float("inf"), width)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL of Independent distributions over different numbers of dimensions: "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
