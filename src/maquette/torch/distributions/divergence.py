"""`kl_divergence`, by pairs of classes; `register_kl` adds a pair."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from maquette.api import functions as mq
from maquette.autograd import enable_grad, grad
from maquette.core.broadcast import broadcast_shapes
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions.base import Distribution, ExponentialFamily
from maquette.torch.distributions.bounded import ContinuousBernoulli
from maquette.torch.distributions.continuous import (
    Cauchy,
    Exponential,
    Laplace,
    Normal,
    Uniform,
)
from maquette.torch.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from maquette.torch.distributions.gammas import Beta, Dirichlet, Gamma
from maquette.torch.distributions.independent import Independent
from maquette.torch.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    _log_diagonal,
    low_rank_mahalanobis,
    mahalanobis,
)
from maquette.torch.distributions.transformed import (
    Gumbel,
    HalfNormal,
    Pareto,
    TransformedDistribution,
)
from maquette.torch.distributions.utils import euler_constant, summed

Rule = Callable[[Any, Any], Tensor]  # of the classes that it is registered for
R = TypeVar("R", bound=Rule)
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Rule | None] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[R], R]:
    """A decorator: the function computes the divergence for these classes and their subclasses.

    As in PyTorch any class will do: programs have distributions that only some classes derive from.
    Raises TypeError for what is no class.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"Expected a subclass of Distribution but got {kind}")

    def register(rule: R) -> R:
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return register


def _rule_for(type_p: type, type_q: type) -> Rule | None:
    """The rule of the nearest classes: of p first; a warning where q first gives another."""
    fits = [(a, b) for a, b in _KL_REGISTRY if issubclass(type_p, a) and issubclass(type_q, b)]
    if not fits:
        return None
    p_order, q_order = type_p.__mro__.index, type_q.__mro__.index
    left = min(fits, key=lambda pair: (p_order(pair[0]), q_order(pair[1])))
    right = min(fits, key=lambda pair: (q_order(pair[1]), p_order(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """How far q is from p (Kullback and Leibler 1951), (*batch), in nats.

    Raises NotImplementedError for classes without a rule.
    """
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _rule_for(*key)
    rule = _KL_MEMOIZE[key]
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}; add one with register_kl"
        )
    return rule(p, q)


# --- of one class --------------------------------------------------------------------------------


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * mq.exp(-off / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    above = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return above - (4 * p.scale * q.scale).log()


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    first = q.concentration * (p.rate / q.rate).log()
    second = mq.lgamma(q.concentration) - mq.lgamma(p.concentration)
    third = (p.concentration - q.concentration) * mq.digamma(p.concentration)
    return first + second + third + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    q_log = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    p_log = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    ones = (p.concentration1 - q.concentration1) * mq.digamma(p.concentration1)
    zeros = (p.concentration0 - q.concentration0) * mq.digamma(p.concentration0)
    return q_log - p_log + ones + zeros + (total_q - total_p) * mq.digamma(total_p)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    first = total_p.lgamma() - total_q.lgamma()
    second = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    slope = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return first - second + ((p.concentration - q.concentration) * slope).sum(-1)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    off_q, off_p = q.loc / q.scale, p.loc / q.scale
    near = off_p - off_q - ratio.log()
    far = mq.exp(off_q + (1 + ratio).lgamma() - off_p)
    return near + ratio * euler_constant + far - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    scale, alpha = p.scale / q.scale, q.alpha / p.alpha
    found = q.alpha * scale.log() - alpha.log() + alpha - 1
    return mq.where(p.support.lower_bound < q.support.lower_bound, math.inf, found)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    width = mq.log((q.high - q.low) / (p.high - p.low))
    return mq.where((q.low > p.low) | (q.high < p.high), math.inf, width)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = F.softplus(-q.logits) - F.softplus(-p.logits)
    found = p.probs * ones + (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return found


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    found = p.total_count * (
        p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    )
    more: Tensor = (p.total_count > q.total_count).expand_as(found)
    return mq.where(more, math.inf, found)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - mq.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = mq.where((q.probs == 0).expand_as(terms), math.inf, terms)
    return mq.where((p.probs == 0).expand_as(terms), 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    means = p.mean * (p.logits - q.logits)
    norms = p._log_norm() + mq.log1p(-p.probs)
    return means + norms - q._log_norm() - mq.log1p(-q.probs)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL of Independent distributions over different numbers of dimensions: "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL of TransformedDistributions is that of their bases if the transforms are equal; "
            f"these are {p.transforms} and {q.transforms}"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """By Bregman's divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            f"using Bregman divergences; these are {type(p).__name__} and {type(q).__name__}"
        )
    mine = [each.detach().requires_grad_() for each in p._natural_params]
    with enable_grad():
        normalizer = p._log_normalizer(*mine)
        slopes = grad(normalizer.sum(), mine, create_graph=True)
    found = q._log_normalizer(*q._natural_params) - normalizer
    for a, b, slope in zip(mine, q._natural_params, slopes, strict=True):
        assert slope is not None
        found = found - summed((b - a) * slope, len(q.event_shape))
    return found


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            f"computed: {p.event_shape} and {q.event_shape}"
        )
    mine, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half = _log_diagonal(other) - _log_diagonal(mine)
    batch = broadcast_shapes(tuple(other.shape[:-2]), tuple(mine.shape[:-2]))
    n = p.event_shape[0]
    trace = _trace(other.expand((*batch, n, n)), mine.expand((*batch, n, n)))
    return half + 0.5 * (trace + mahalanobis(other, q.loc - p.loc) - n)


def _trace(factor: Tensor, matrix: Tensor) -> Tensor:
    """The trace of ``(L L^T)^-1 M M^T``."""
    return mq.linalg_solve_triangular(factor, matrix, upper=False).pow(2).sum((-2, -1))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    return _low_rank_by(p, q, p.covariance_matrix, p._log_det())


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _into_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    log_det = 2 * _log_diagonal(p._unbroadcasted_scale_tril)
    return _low_rank_by(p, q, p.covariance_matrix, log_det)


def _low_rank_by(
    p: Any, q: LowRankMultivariateNormal, covariance: Tensor, log_det: Tensor
) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes "
            f"cannot be computed: {p.event_shape} and {q.event_shape}"
        )
    trace = (q.precision_matrix * covariance).sum((-2, -1))
    m = low_rank_mahalanobis(q, q.loc - p.loc)
    return 0.5 * (q._log_det() - log_det + trace + m - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _from_low_rank(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes "
            f"cannot be computed: {p.event_shape} and {q.event_shape}"
        )
    factor = q._unbroadcasted_scale_tril
    log_det = 2 * _log_diagonal(factor)
    trace = (q.precision_matrix * p.covariance_matrix).sum((-2, -1))
    return 0.5 * (
        log_det - p._log_det() + trace + mahalanobis(factor, q.loc - p.loc) - p.event_shape[0]
    )


# --- of two classes: what p gives and q forbids is infinitely far ---------------------------------


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    return mq.full_like(p.mean, math.inf)


_FORBIDDEN: dict[type[Distribution], tuple[type[Distribution], ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _p, _others in _FORBIDDEN.items():
    for _q in _others:
        register_kl(_p, _q)(functools.partial(_infinite))


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - mq.log1p(-q.probs) - q._log_norm()


@register_kl(Beta, Exponential)
def _beta_exponential(p: Beta, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    logs = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return -p.entropy() + norm - (q.concentration - 1) * logs + q.rate * p.mean


@register_kl(Beta, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
@register_kl(ContinuousBernoulli, Normal)
def _any_normal(p: Any, q: Normal) -> Tensor:
    """By mean and variance of p."""
    squared = p.variance + (p.mean - q.loc).pow(2)
    norm = q.scale.log() + 0.5 * math.log(2 * math.pi)
    return -p.entropy() + norm + 0.5 * squared / q.scale.pow(2)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return mq.where(p.alpha <= 2, math.inf, _any_normal(p, q))


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    found = -p.entropy() + (q.high - q.low).log()
    return mq.where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_exponential(p: ContinuousBernoulli, q: Exponential) -> Tensor:
    return -p.entropy() - mq.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    found = -p.entropy() + (q.high - q.low).log()
    return mq.where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio = q.rate / p.rate
    first = -q.concentration * mq.log(ratio)
    rest = q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant)
    return first + ratio + rest


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    product, off = p.rate * q.scale, q.loc / q.scale
    first, second = product.log() - 1, mq.exp(off) * product / (product + 1)
    return first - off + second + product.reciprocal()


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    product, off = p.rate * q.scale, q.loc / q.scale
    a = p.concentration
    first = (a - 1) * a.digamma() - a.lgamma() - a + a / product
    second = product.log() - off
    return first + second + mq.exp(off) * (1 + product.reciprocal()).pow(-a)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    off_p, ratio, off_q = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    first = -ratio.log() * 0.5
    return (
        first
        + off_p
        - off_q
        + mq.exp(-off_p + 0.5 * ratio + off_q)
        - (0.5 * (1 + math.log(2 * math.pi)))
    )


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    off = p.loc - q.loc
    ratio, scaled = p.scale / q.scale, off / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * mq.exp(-0.5 * scaled.pow(2))
    far = off * mq.erf(math.sqrt(0.5) * scaled)
    return -ratio.log() + (near + far) / q.scale - (0.5 + 0.5 * math.log(0.5 * math.pi))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    product = p.scale * q.rate
    found = (p.alpha / product).log() - p.alpha.reciprocal() + p.alpha * product / (p.alpha - 1) - 1
    return mq.where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    logs = p.scale.log() + p.alpha.reciprocal()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    found = p.alpha.log() - logs + norm + (1 - q.concentration) * logs
    found = found + q.rate * p.alpha * p.scale / (p.alpha - 1) - 1
    return mq.where(p.alpha <= 1, math.inf, found)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    width = p.high - p.low
    norm = q.concentration1.lgamma() + q.concentration0.lgamma()
    norm = norm - (q.concentration1 + q.concentration0).lgamma()
    ones = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    ends = _x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width
    found = norm - mq.log(width) - ones + (q.concentration0 - 1) * ends / width
    return mq.where((p.high > 1) | (p.low < 0), math.inf, found)


def _x_log_x(x: Tensor) -> Tensor:
    return mq.special_xlogy(x, x)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    found = -p.entropy() - p.mean * q.logits - mq.log1p(-q.probs) - q._log_norm()
    return mq.where((p.high > 1) | (p.low < 0), math.inf, found)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    found = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return mq.where(p.low < 0, math.inf, found)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    width = p.high - p.low
    norm = q.concentration.lgamma() - q.concentration * q.rate.log() - width.log()
    logs = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    found = norm + (1 - q.concentration) * logs + q.rate * (p.high + p.low) / 2
    return mq.where(p.low < 0, math.inf, found)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return ratio.log() + 0.5 * (high + low) - ratio * (mq.exp(-high) - mq.exp(-low))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    width = p.high - p.low
    first = -mq.log(q.alpha * q.scale.pow(q.alpha) * width)
    logs = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    return mq.where(p.low < q.support.lower_bound, math.inf, first + (q.alpha + 1) * logs)
