"""Distances between vectors."""

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.tensor import Tensor


class CosineSimilarity(Module):
    """x1 · x2 / (|x1| |x2|) along a dimension."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The similarity, without that dimension."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The distance of each pair."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
