"""Draws of the gamma and Dirichlet distributions, and their derivatives by the parameters.

A draw x of a distribution function F(x; a) moves with a as ``-(dF/da) / (dF/dx)``: the draw keeps
its quantile. dF/da has no closed form; of the gamma distribution it is a series where that is short
(100,000 draws: 360 to 10 ms), else a difference of fourth order in float64.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.axes import Array
from maquette.aten.common.large_arrays import BLOCK
from maquette.aten.random.random_fills import GENERATOR
from maquette.aten.random.rejection import gamma_numbers
from maquette.core.dtype import float32, float64
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.tensor.backend import backend_for
from maquette.tensor.streams.generator import stream_of
from maquette.tensor.tensor import Tensor

_SEEDED = [Tag.nondeterministic_seeded]
_SMALL_LOOP = 1 << 7  # elements from which a loop is called; the plain path takes 4 us for each
_STEP = 1e-3  # relative; the differences are of fourth order
_STEP_OF_LARGE = 0.02  # of the square root: what a large shape moves its distribution by
_NODES = 40  # of the integral far from the mean: ten digits
_LARGE_SHAPE = 100.0  # from which the series has hundreds of terms
_ROUND = 8  # terms between two looks at what is left
_ENOUGH = 1e-17
_DIGITS_LEFT = 1e-8


def _special() -> Any:
    return importlib.import_module("scipy.special")


def _slope(f: Callable[[Array], Array], at: Array) -> Array:
    h = np.minimum(_STEP * at, _STEP_OF_LARGE * np.sqrt(at))
    return (8 * (f(at + h) - f(at - h)) - (f(at + 2 * h) - f(at - 2 * h))) / (12 * h)


def _check_floating(kernel: str, meta: TensorMeta) -> None:
    check_not_implemented(
        meta.dtype is float32 or meta.dtype is float64,
        lambda: f"\"{kernel}\" not implemented for '{meta.dtype.scalar_name}'; got {meta}",
    )


def _drawn(alphas: Array, generator: object) -> Array:
    stream = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
    return gamma_numbers(stream, alphas.astype(np.float64).reshape(-1)).reshape(alphas.shape)


_standard_gamma = define(f"aten::_standard_gamma(Tensor self, {GENERATOR}) -> Tensor", tags=_SEEDED)
_standard_gamma.describe("Draws from gamma distributions of scale 1; `self` holds their shapes.")


@_standard_gamma.shape
def standard_gamma_shape(self: TensorMeta, generator: object) -> TensorMeta:
    _check_floating("gamma_cpu", self)
    return self.fresh(self.shape)


@_standard_gamma.kernel
@on_host
def standard_gamma_kernel(xp: ModuleType, self: Array, generator: object) -> Array:
    return np.maximum(_drawn(self, generator).astype(self.dtype), np.finfo(self.dtype).tiny)


_standard_gamma_grad = define("aten::_standard_gamma_grad(Tensor self, Tensor output) -> Tensor")
_standard_gamma_grad.describe("How draws of gamma distributions of shape `self` move with it.")


@_standard_gamma_grad.shape
def standard_gamma_grad_shape(self: TensorMeta, output: TensorMeta) -> TensorMeta:
    _check_floating("_standard_gamma_grad_cpu", self)
    check(self.shape == output.shape, lambda: f"one draw for each shape, not {output} for {self}")
    return self.fresh(self.shape)


@_standard_gamma_grad.kernel
@on_host
def standard_gamma_grad_kernel(xp: ModuleType, self: Array, output: Array) -> Array:
    loops = backend_for(np).loops if self.size >= _SMALL_LOOP else None
    if loops is None:
        return _gamma_slopes(self, output)
    moved: Array = loops.gamma_slopes(self, output)
    return _mended(moved, _gamma_slopes, self, output)


def _mended(moved: Array, plain: Callable[..., Array], *operands: Array) -> Array:
    """What a loop left out as NaN, from the plain path."""
    left = np.isnan(moved)
    if left.any():
        moved[left] = plain(*[operand[left] for operand in operands])
    return moved


def _gamma_slopes(shapes: Array, drawn: Array) -> Array:
    a, x = _double(shapes).reshape(-1), _double(drawn).reshape(-1)
    found = np.empty(a.shape)
    far = 6 * np.sqrt(a) + 8
    short = (x > 0) & (x <= a + far) & ((a <= _LARGE_SHAPE) | (x < 0.9 * a))
    tail = ~short & (np.abs(x - a) > far) & (x > 0)
    found[tail] = _by_integral(a[tail], x[tail])
    rest = ~short & ~tail
    found[rest] = _by_differences(a[rest], x[rest])
    near, at = a[short], x[short]
    parts = [slice(i, i + BLOCK) for i in range(0, near.size, BLOCK)]
    found[short] = np.concatenate([near[:0], *[_by_series(near[p], at[p]) for p in parts]])
    return found.reshape(shapes.shape)


def _by_series(a: Array, x: Array) -> Array:
    """The sum over n of ``x**(n + 1) / (a (a + 1) ... (a + n)) * (digamma(a + n + 1) - log(x))``.

    It is the derivative, term by term, of the power series of the distribution function
    (dlmf.nist.gov/8.11), over the density. Beyond the mean its terms cancel in part: 6 standard
    deviations cost five digits.
    """
    term, next_ = x / a, a + 1
    lag = _special().digamma(next_) - np.log(x)
    total = term * lag
    least = float((x - a).max())
    for n in itertools.count(1):
        term *= x / next_
        lag += 1 / next_
        total += term * lag
        next_ += 1
        if n % _ROUND == 0 and n > least and bool((term * lag <= _ENOUGH * np.abs(total)).all()):
            break
    return total


def _by_integral(a: Array, x: Array) -> Array:
    """Far from the mean, where density and tail may be less than any number: their ratio.

    The upper tail over the density is the integral of ``exp(-x u) (1 + u) ** (a - 1) x`` over u
    from 0 (dlmf.nist.gov/8.6.5), its slope has the factor ``log(x (1 + u)) - digamma(a)``; the
    lower tail's integral goes down from 0 to -1.
    """
    nodes, weights = np.polynomial.laguerre.laggauss(_NODES)
    a, x = a[:, None], x[:, None]
    pace = x - a + 1
    u = np.maximum(nodes / pace, -1 + 1e-9)  # beyond it the weights are nothing
    size = np.exp((a - 1) * (np.log1p(u) - u)) * x / pace
    found: Array = (weights * size * (np.log(x) + np.log1p(u) - _special().digamma(a))).sum(1)
    return found


def _by_differences(a: Array, x: Array) -> Array:
    special = _special()
    # The smaller tail is known to more digits.
    below = _slope(lambda shape: special.gammainc(shape, x), a)
    above = -_slope(lambda shape: special.gammaincc(shape, x), a)
    density = np.exp((a - 1) * np.log(x) - x - special.gammaln(a))
    return -np.where(x < a, below, above) / density


_standard_gamma.derivative(
    self=lambda grad, self, result: grad * _standard_gamma_grad(self, result)
)

_sample_dirichlet = define(
    f"aten::_sample_dirichlet(Tensor self, {GENERATOR}) -> Tensor", tags=_SEEDED
)
_sample_dirichlet.describe("Draws from Dirichlet distributions along the last dimension.")


@_sample_dirichlet.shape
def sample_dirichlet_shape(self: TensorMeta, generator: object) -> TensorMeta:
    _check_floating("dirichlet", self)
    return self.fresh(self.shape)


@_sample_dirichlet.kernel
@on_host
def sample_dirichlet_kernel(xp: ModuleType, self: Array, generator: object) -> Array:
    # Shapes near nothing give numbers that doubles do not hold; in place of shares of zeros those
    # of the least double are given.
    drawn = np.maximum(_drawn(self, generator), np.finfo(np.float64).tiny)
    most = np.nextafter(self.dtype.type(1), self.dtype.type(0))
    shares = drawn / drawn.sum(-1, keepdims=True)
    return np.clip(shares, np.finfo(self.dtype).tiny, most).astype(self.dtype)


_sample_dirichlet.derivative(self=lambda grad, self, result: _through_shares(grad, self, result))

_dirichlet_grad = define("aten::_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor")
_dirichlet_grad.describe(
    "How the share `x` moves with its `alpha`, over ``1 - x``; `total` of all."
)


@_dirichlet_grad.shape
def dirichlet_grad_shape(x: TensorMeta, alpha: TensorMeta, total: TensorMeta) -> TensorMeta:
    _check_floating("_dirichlet_grad_cpu", x)
    return x.fresh(x.shape)


@_dirichlet_grad.kernel
@on_host
def dirichlet_grad_kernel(xp: ModuleType, x: Array, alpha: Array, total: Array) -> Array:
    given = np.broadcast_arrays(x, alpha, total)
    loops = backend_for(np).loops if alpha.size >= _SMALL_LOOP else None
    if loops is None:
        return _beta_slopes(*given)
    moved: Array = loops.beta_slopes(*given)
    return _mended(moved, _beta_slopes, *given)


def _beta_slopes(share: Array, alpha: Array, total: Array) -> Array:
    x, a, every = (_double(t).reshape(-1) for t in (share, alpha, total))
    b = every - a
    found = np.full(a.shape, np.nan)
    inside, lower = (x > 0) & (x < 1) & (a > 0) & (b > 0), x <= 0.5
    _fill_by_series(found, inside & (every <= _LARGE_SHAPE), x, a, b, lower)
    # Far from the mean of large shapes a few terms do, where differences meet a density of 0.
    lower = x * every <= a
    growth = every * np.where(lower, x / (a + 1), (1 - x) / (b + 1))
    _fill_by_series(found, inside & np.isnan(found) & (growth < 0.9), x, a, b, lower)
    left = np.isnan(found)
    if left.any():
        found[left] = _shares_by_differences(x[left], a[left], b[left])
    return found.reshape(alpha.shape)


def _double(x: Array) -> Array:
    return x.astype(np.float64)


def _fill_by_series(found: Array, where: Array, x: Array, a: Array, b: Array, below: Array) -> None:
    chosen = np.flatnonzero(where)
    for i in range(0, chosen.size, BLOCK):
        part = chosen[i : i + BLOCK]
        found[part] = _shares_by_series(x[part], a[part], b[part], below[part])


def _shares_by_series(x: Array, a: Array, b: Array, below: Array) -> Array:
    """As `_by_series`, of the share x where ``below``, else of 1 - x (dlmf.nist.gov/8.17.8).

    NaN where so many digits cancel that few are left.
    """
    special, every = _special(), a + b
    term, ratio = x / np.where(below, a, b), np.where(below, x, 1 - x)
    next_ = np.where(below, a, b) + 1
    own = below.astype(np.float64)  # whether the number below the line moves with a
    lag = np.log(x) + special.digamma(every) - special.digamma(a + own)
    total = term * lag
    size = np.abs(total)
    for n in itertools.count(1):
        lag_step = 1 / every - own / next_
        term *= ratio * every / next_
        lag += lag_step
        part = term * lag
        total += part
        size += np.abs(part)
        every, next_ = every + 1, next_ + 1
        if n % _ROUND == 0 and bool((ratio * every < 0.9 * next_).all()):
            if bool((np.abs(part) <= _ENOUGH * size).all()):
                break
    total[np.abs(total) < _DIGITS_LEFT * size] = np.nan
    return np.where(below, -total, total)


def _shares_by_differences(x: Array, a: Array, b: Array) -> Array:
    special = _special()
    below = _slope(lambda shape: special.betainc(shape, b, x), a)
    above = -_slope(lambda shape: special.betainc(b, shape, 1 - x), a)
    # One tail alone keeps its digits where the other is nearly 1.
    moved = np.where(special.betainc(a, b, x) < 0.5, below, above)
    density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b))
    return -moved / density / (1 - x)


def _through_shares(grad: Tensor, alpha: Tensor, x: Tensor) -> Tensor:
    """All shares give way to the one that moves, in proportion."""
    total = alpha.sum(-1, True).expand_as(alpha)
    moved: Tensor = _dirichlet_grad(x, alpha, total)
    return moved * (grad - (x * grad).sum(-1, True))
