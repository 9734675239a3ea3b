"""Parametrizations of weights: of unit spectral norm, direction and length apart, orthogonal."""

from __future__ import annotations

from enum import Enum, auto

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.utils.norms import matrix_of, norm_except_dim, power_iteration, weight_normed
from maquette.nn.utils.parametrize import register_parametrization
from maquette.tensor import Tensor


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_normed(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight.detach().clone()


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train length and direction of a weight apart (Salimans and Kingma 2016); returns the module.

    ``original0`` is the length along `dim` (None: of all elements), ``original1`` the direction.
    State dicts of the older `torch.nn.utils.weight_norm` can be loaded.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict: dict[str, Tensor], prefix: str, *rest: object) -> None:
        for old, new in (("g", "original0"), ("v", "original1")):
            key = f"{prefix}{name}_{old}"
            if key in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.dim()}, "
                f"{weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got n_power_iterations="
                f"{n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = matrix_of(weight, self.dim)
            rows, columns = matrix.shape
            u = matrix.new_empty(rows).normal_(0, 1)
            v = matrix.new_empty(columns).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with no_grad():
            power_iteration(matrix.detach(), self._u, self._v, times, self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: another forward before backward would change what is saved.
        u, v = self._u.clone(), self._v.clone()
        return weight / mq.dot(u, mq.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018); returns the module.

    The value is followed by `n_power_iterations` at each access in training mode. dim: of the
    outputs, 0, or 1 for transposed convolutions.
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    weight = getattr(module, name)
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps)
    )


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()


class _Orthogonal(Module):
    """Through a skew matrix, and around a base (Lezcano-Casado 2019) that holds the first value."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is not _OrthMaps.matrix_exp:
            raise ValueError("complex weights need orthogonal_map='matrix_exp'")
        self.orthogonal_map = orthogonal_map
        self.shape = tuple(weight.shape)
        self.use_trivialization = use_trivialization
        self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        tall = X.mT if wide else X
        n, k = tall.shape[-2:]
        lower = tall.tril()
        if n != k:
            lower = mq.cat([lower, lower.new_zeros(*lower.shape[:-2], n, n - k)], -1)
        skew = lower - lower.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            Q = mq.linalg_matrix_exp(skew)
        else:
            one = mq.eye(n, dtype=skew.dtype, device=skew.device)
            Q = mq.linalg_solve(one.sub(skew, alpha=0.5), one.add(skew, alpha=0.5))
        Q = Q[..., :k]
        if self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        if not self.use_trivialization:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        orthogonal, triangle = mq.linalg_qr(tall, mode="complete")
        signs = triangle.diagonal(dim1=-2, dim2=-1).sgn()
        first = orthogonal[..., : tall.size(-1)] * signs.unsqueeze(-2)
        self.base = mq.cat([first, orthogonal[..., tall.size(-1) :]], -1)
        start = mq.zeros_like(Q)  # tril(-1) - its transpose is zero, whose exponential is one
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix orthogonal, or its rows or columns orthonormal; returns the module.

    orthogonal_map: "matrix_exp" or "cayley". Different from PyTorch: it takes "householder" for
    matrices that are not square, which is not there; "matrix_exp" is the default for all.

    Raises ValueError for a weight of fewer than two dimensions or another name.
    """
    weight = getattr(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map == "householder":
        raise NotImplementedError(
            "orthogonal_map='householder' needs linalg.householder_product, which is not there "
            "yet: use 'matrix_exp' or 'cayley'"
        )
    found = _OrthMaps.__members__.get(orthogonal_map or "matrix_exp")
    if found is None:
        raise ValueError(
            f"orthogonal_map has to be one of {list(_OrthMaps.__members__)}. Got: {orthogonal_map}"
        )
    return register_parametrization(
        module, name, _Orthogonal(weight, found, use_trivialization), unsafe=True
    )
