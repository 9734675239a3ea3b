"""Distributions of vectors and matrices: normal, Wishart, correlations."""

from __future__ import annotations

import math
import warnings
from typing import Any

from maquette.api import functions as mq
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import finfo
from maquette.core.size import Size
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.base import (
    NO_SHAPE,
    Distribution,
    ExponentialFamily,
    Shape,
)
from maquette.torch.distributions.gammas import Beta, Chi2
from maquette.torch.distributions.utils import Value, lazy_property


def batch_mv(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Products of matrices (*, n, n) with vectors (*, n)."""
    return (matrices @ vectors.unsqueeze(-1)).squeeze(-1)


def mahalanobis(factor: Tensor, off: Tensor) -> Tensor:
    """``off^T (L L^T)^-1 off`` of lower triangular L, which broadcast together."""
    solved = mq.linalg_solve_triangular(factor, off.unsqueeze(-1), upper=False)
    return solved.pow(2).sum((-2, -1))


_batch_mv, _batch_mahalanobis = batch_mv, mahalanobis  # PyTorch's names, which libraries import


def tril_of_precision(precision: Tensor) -> Tensor:
    """The lower triangular L with ``L L^T`` the inverse of a precision matrix."""
    flipped = mq.linalg_cholesky(mq.flip(precision, (-2, -1)))
    upper = mq.flip(flipped, (-2, -1)).mT
    one = mq.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return mq.linalg_solve_triangular(upper, one, upper=False)


_precision_to_scale_tril = tril_of_precision  # PyTorch's name, which libraries import


def _log_diagonal(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


_FORMS = ("covariance_matrix", "scale_tril", "precision_matrix")


def _check_one_form(given: tuple[Tensor | None, ...]) -> None:
    if sum(form is not None for form in given) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )


class _Scattered(Distribution):
    """Of a matrix given as itself, as its Cholesky factor or as its inverse."""

    _unbroadcasted_scale_tril: Tensor

    def _set_form(self, name: str, matrix: Tensor) -> None:
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = mq.linalg_cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = tril_of_precision(matrix)

    def _matrix_shape(self) -> Any:
        n = self._unbroadcasted_scale_tril.shape[-1]
        return (*self._batch_shape, n, n)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The matrix."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Its inverse."""
        factor = self._unbroadcasted_scale_tril
        return mq.cholesky_inverse(factor).expand(self._matrix_shape())


class MultivariateNormal(_Scattered):
    """Normal vectors of mean loc; of a covariance, its inverse, or its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    own_dims = {"loc": 1, **dict.fromkeys(_FORMS, 2)}

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        _check_one_form((covariance_matrix, scale_tril, precision_matrix))
        forms = zip(_FORMS, (covariance_matrix, scale_tril, precision_matrix), strict=True)
        name, matrix = next((n, m) for n, m in forms if m is not None)
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._set_form(name, matrix)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """loc + L noise."""
        shape = self._extended_shape(sample_shape)
        noise = mq.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        m = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        half = _log_diagonal(self._unbroadcasted_scale_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + m) - half

    def entropy(self) -> Tensor:
        """n (1 + log 2 pi) / 2 + log det L."""
        half = _log_diagonal(self._unbroadcasted_scale_tril)
        found = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half
        return found.expand(self._batch_shape) if self._batch_shape else found


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance ``W W^T + diag(d)``, of cov_factor W (n, rank), cov_diag d."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    own_dims = {"loc": 1, "cov_diag": 1, "cov_factor": 2, **dict.fromkeys(_FORMS, 2)}

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.shape[-1] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape ({n},)")
        shapes = (tuple(loc.shape), tuple(cov_diag.shape), (*cov_factor.shape[:-2], n))
        together = broadcast_shapes(*shapes)
        batch = together[:-1]
        self.loc, self.cov_diag = loc.expand(together), cov_diag.expand(together)
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        capacitance = scaled @ cov_factor
        capacitance.diagonal(dim1=-2, dim2=-1).add_(1)
        self._capacitance_tril = mq.linalg_cholesky(capacitance)
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """loc."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    def _matrix_shape(self) -> Any:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return mq.linalg_cholesky(self.covariance_matrix)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W W^T + diag(d)."""
        factor = self._unbroadcasted_cov_factor
        found = factor @ factor.mT + mq.diag_embed(self._unbroadcasted_cov_diag)
        return found.expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Its inverse, by Woodbury's identity."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        solved = mq.linalg_solve_triangular(self._capacitance_tril, scaled, upper=False)
        inverse = mq.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - solved.mT @ solved
        return inverse.expand(self._matrix_shape())

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """loc + W noise + sqrt(d) noise."""
        shape = self._extended_shape(sample_shape)
        rank = (*shape[:-1], self.cov_factor.shape[-1])
        options: dict[str, Any] = {"dtype": self.loc.dtype, "device": self.loc.device}
        first, second = mq.randn(rank, **options), mq.randn(shape, **options)
        spread = batch_mv(self._unbroadcasted_cov_factor, first)
        return self.loc + spread + self._unbroadcasted_cov_diag.sqrt() * second

    def _log_det(self) -> Tensor:
        return 2 * _log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(
            -1
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        m = low_rank_mahalanobis(self, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + m)

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        n = self._event_shape[0]
        found = 0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return found.expand(self._batch_shape) if self._batch_shape else found


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """``x^T (W W^T + diag(D))^-1 x``; capacitance_tril: of ``I + W^T D^-1 W``."""
    along = batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - mahalanobis(capacitance_tril, along)


def low_rank_mahalanobis(p: LowRankMultivariateNormal, off: Tensor) -> Tensor:
    """``off^T S^-1 off`` of the covariance S of a low rank normal distribution."""
    return _batch_lowrank_mahalanobis(
        p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag, off, p._capacitance_tril
    )


class Wishart(_Scattered, ExponentialFamily):
    """Positive definite matrices: sums of df outer products of normal vectors."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True
    own_dims = {"df": 0, **dict.fromkeys(_FORMS, 2)}
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Value,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _check_one_form((covariance_matrix, scale_tril, precision_matrix))
        forms = zip(_FORMS, (covariance_matrix, scale_tril, precision_matrix), strict=True)
        name, matrix = next((n, m) for n, m in forms if m is not None)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional.")
        count = df if isinstance(df, Tensor) else mq.tensor(df, dtype=matrix.dtype)
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(count.shape))
        self.df = count.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        n = matrix.shape[-1]
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if bool((self.df < n).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._set_form(name, matrix)
        self._make_chi2()

    def _make_chi2(self) -> None:
        n = self._event_shape[-1]
        steps = mq.arange(n, dtype=self.df.dtype, device=self.df.device)
        batch = self._batch_shape
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - steps.expand((*batch, -1)))

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parameters expanded."""
        made = super().expand(batch_shape, _instance)
        made._make_chi2()
        return made

    @property
    def mean(self) -> Tensor:
        """df times the matrix."""
        return self.df.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """(df - n - 1) times the matrix; NaN where that is negative."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.where(factor > 0, math.nan)
        return factor.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """df (V_ij^2 + V_ii V_jj)."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view((*self._batch_shape, 1, 1)) * (v.pow(2) + outer)

    def rsample(
        self, sample_shape: Shape = NO_SHAPE, max_try_correction: int | None = None
    ) -> Tensor:
        """Draws by Bartlett's decomposition.

        max_try_correction: how often singular draws are made again; 10 times if nothing is said.
        """
        sample = self._bartlett_sampling(Size(sample_shape))
        # PyTorch draws what is positive definite again, once, and then what is singular of that:
        # the other way round would be meant, but these are its numbers.
        chosen = self._over_batch(self.support.check(sample))
        if not bool(chosen.any()):
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            again = self._bartlett_sampling(chosen[chosen].shape)
            sample[chosen] = again
            chosen[chosen.clone()] = self._over_batch(self.support.check(again).logical_not())
            if not bool(chosen.any()):
                break
        return sample

    def _over_batch(self, found: Tensor) -> Tensor:
        """Whether any matrix of the batch was found, for each sample."""
        batch = [-1 - d for d in range(len(self._batch_shape))]
        return found.amax(batch) if batch else found

    def _bartlett_sampling(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        n = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = roots.clamp(min=finfo(roots.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        rows, columns = mq.tril_indices(n, n, offset=-1).unbind(0)
        below = (*sample_shape, *self._batch_shape, n * (n - 1) // 2)
        noise[..., rows, columns] = mq.randn(below, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        nu, n = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        whole = nu * n / 2 * math.log(2) + nu * _log_diagonal(factor)
        whole = whole + mq.mvlgamma(nu / 2, n)
        trace = mq.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (nu - n - 1) / 2 * mq.linalg_slogdet(value)[1] - 0.5 * trace - whole

    def entropy(self) -> Tensor:
        """The entropy (*batch)."""
        nu, n = self.df, self._event_shape[-1]
        steps = mq.arange(n, dtype=nu.dtype, device=nu.device)
        digammas = mq.digamma((nu.unsqueeze(-1) - steps) / 2).sum(-1)
        factor = _log_diagonal(self._unbroadcasted_scale_tril)
        return (
            (n + 1) * (factor + 0.5 * n * math.log(2.0))
            + mq.mvlgamma(nu / 2, n)
            - (nu - n - 1) / 2 * digammas
            + nu * n / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]  # of two
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (-mq.linalg_slogdet(-2 * x)[1] + math.log(2.0) * n) + mq.mvlgamma(half, n)


class LKJCholesky(Distribution):
    """Cholesky factors of correlations, with density ``det(L L^T)^(concentration - 1)``."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    own_dims = {"concentration": 0}

    def __init__(
        self, dim: int, concentration: Value = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        given = concentration if isinstance(concentration, Tensor) else mq.tensor(concentration)
        self.concentration = given
        super().__init__(given.shape, (dim, dim), validate_args)
        self._make_beta()

    def _make_beta(self) -> None:
        marginal = self.concentration + 0.5 * (self.dim - 2)
        steps = mq.arange(
            self.dim - 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        steps = mq.cat([steps.new_zeros((1,)), steps])
        self._beta = Beta(steps + 0.5, marginal.unsqueeze(-1) - 0.5 * steps)

    def expand(self, batch_shape: Shape, _instance: object = None) -> Any:
        """The distribution with its parameters expanded."""
        made = super().expand(batch_shape, _instance)
        made._beta = self._beta.expand((*batch_shape, self.dim))
        return made

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Factors by the onion method (Lewandowski, Kurowicka, Joe, 2009)."""
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        normal = mq.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
        sphere = normal / normal.norm(dim=-1, keepdim=True)
        sphere[..., 0, :].fill_(0.0)
        w = mq.sqrt(y) * sphere
        left = mq.clamp(1 - mq.sum(w**2, -1), min=finfo(w.dtype).tiny)
        return w + mq.diag_embed(left.sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        n, a = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = mq.arange(2, n + 1, device=a.device)
        powers = 2 * (a - 1).unsqueeze(-1) + n - order
        unnormalized = mq.sum(powers * diagonal.log(), -1)
        count = n - 1
        alpha = a + 0.5 * count
        above = mq.mvlgamma(alpha - 0.5, count)
        whole = 0.5 * count * math.log(math.pi) + above - mq.lgamma(alpha) * count
        return unnormalized - whole
