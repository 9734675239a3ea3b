"""`torch.distributions`: batches of distributions, transforms of them, and divergences between.

Arguments are checked where they have data: fake tensors have none, and take part unchecked.
"""

from __future__ import annotations

from maquette.torch.distributions import constraints, transforms
from maquette.torch.distributions.base import Distribution, ExponentialFamily
from maquette.torch.distributions.bounded import (
    ContinuousBernoulli,
    MixtureSameFamily,
    VonMises,
)
from maquette.torch.distributions.constraint_registry import biject_to, transform_to
from maquette.torch.distributions.continuous import (
    Cauchy,
    Exponential,
    GeneralizedPareto,
    Laplace,
    Normal,
    Uniform,
)
from maquette.torch.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from maquette.torch.distributions.divergence import (
    _KL_REGISTRY,
    kl_divergence,
    register_kl,
)
from maquette.torch.distributions.gammas import (
    Beta,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    StudentT,
)
from maquette.torch.distributions.independent import Independent
from maquette.torch.distributions.multivariate import (
    LKJCholesky,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
)
from maquette.torch.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from maquette.torch.distributions.transformed import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    TransformedDistribution,
    Weibull,
)
from maquette.torch.distributions.transforms import *  # noqa: F403  # all of them, by name
from maquette.torch.face.forwarding import forward

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "_KL_REGISTRY",
    "biject_to",
    "constraints",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    *transforms.__all__,
]
__getattr__ = forward(__name__)
