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
        return weight / mq.vdot(u, mq.mv(matrix, v))

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
    householder = auto()


class _Orthogonal(Module):
    """Through a skew matrix or reflectors, around a base that holds the value assigned last.

    The base makes any first value the image of one point (Lezcano-Casado 2019).
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.orthogonal_map = orthogonal_map
        self.shape = weight.shape
        self.use_trivialization = use_trivialization
        self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        tall = X.mT if wide else X
        reflected = self.orthogonal_map is _OrthMaps.householder
        Q = _from_reflectors(tall) if reflected else self._from_skew(tall)
        if self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _from_skew(self, tall: Tensor) -> Tensor:
        n, k = tall.shape[-2:]
        lower = tall.tril()
        if n != k:
            lower = mq.cat([lower, lower.new_zeros(*lower.shape[:-2], n, n - k)], -1)
        skew = lower - lower.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            return mq.linalg_matrix_exp(skew)[..., :k]
        one = mq.eye(n, dtype=skew.dtype, device=skew.device)
        return mq.linalg_solve(one.sub(skew, alpha=0.5), one.add(skew, alpha=0.5))[..., :k]

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        if self.use_trivialization:
            self.base = _completed(tall)
            # Both maps send it to one: its skew part is zero, its reflectors undo its signs.
            start = mq.zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        reflectors = _reflectors(tall)
        return reflectors.mT if wide else reflectors


def _from_reflectors(tall: Tensor) -> Tensor:
    """The product of the reflectors below the diagonal, times the diagonal's signs."""
    vectors = tall.tril(diagonal=-1)
    tau = 2.0 / (1.0 + (vectors * vectors).sum(dim=-2))
    product = mq.linalg_householder_product(vectors, tau)
    return product * tall.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)


def _reflectors(tall: Tensor) -> Tensor:
    """What `_from_reflectors` makes an orthogonal matrix from."""
    found, tau = mq.geqrf(tall)
    diagonal = found.diagonal(dim1=-2, dim2=-1)
    diagonal.sign_()
    diagonal[tau == 0.0] *= -1
    return found


def _completed(tall: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with the columns given, made orthonormal."""
    n, k = tall.shape[-2:]
    if n != k:
        rest = mq.randn((*tall.shape[:-2], n, n - k), dtype=tall.dtype, device=tall.device)
        tall = mq.cat([tall, rest], dim=-1)
    orthogonal, triangle = mq.linalg_qr(tall)
    return orthogonal * triangle.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix orthogonal, or its rows or columns orthonormal; returns the module.

    orthogonal_map: "matrix_exp", "cayley" or "householder"; None: the first for square or complex
    matrices, else the last. use_trivialization: around the value that it has or is assigned.

    Raises ValueError for a weight of fewer than two dimensions or another name.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(
            f"Module '{module}' has no parameter or buffer with name '{name}' to make orthogonal"
        )
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        plain = weight.size(-2) != weight.size(-1) and not weight.is_complex()
        orthogonal_map = "householder" if plain else "matrix_exp"
    found = _OrthMaps.__members__.get(orthogonal_map)
    if found is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    return register_parametrization(
        module, name, _Orthogonal(weight, found, use_trivialization), unsafe=True
    )
