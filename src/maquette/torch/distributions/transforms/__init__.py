"""Transforms: invertible functions of tensors, with the logarithm of how they stretch volumes.

``t(x)``, ``t.inv(y)`` and ``t.log_abs_det_jacobian(x, y)``; ``domain`` and ``codomain`` say what
goes in and out. With ``cache_size=1`` the last pair is kept: inverting a result gives its argument.
"""

from __future__ import annotations

from maquette.torch.distributions import constraints as constraints
from maquette.torch.distributions.transforms.base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)
from maquette.torch.distributions.transforms.base import (
    _InverseTransform as _InverseTransform,
)
from maquette.torch.distributions.transforms.joined import (
    CatTransform,
    StackTransform,
)
from maquette.torch.distributions.transforms.numbers import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from maquette.torch.distributions.transforms.numbers import (
    _clipped_sigmoid as _clipped_sigmoid,
)
from maquette.torch.distributions.transforms.vectors import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
