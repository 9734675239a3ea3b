"""`torch.distributions`: the common ones, and divergences between them.

What PyTorch has besides (transformed, mixed, multivariate ones) is not there yet. Arguments are not
validated: `validate_args` is taken and not used, because the check needs data, which fake tensors
do not have.
"""

from __future__ import annotations

from maquette.torch.distributions.base import Distribution
from maquette.torch.distributions.continuous import Exponential, Laplace, Normal, Uniform
from maquette.torch.distributions.discrete import Bernoulli, Categorical
from maquette.torch.distributions.divergence import kl_divergence, register_kl
from maquette.torch.distributions.independent import Independent
from maquette.torch.face.forwarding import forward

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "Exponential",
    "Independent",
    "Laplace",
    "Normal",
    "Uniform",
    "kl_divergence",
    "register_kl",
]
__getattr__ = forward(__name__)
