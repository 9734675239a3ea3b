"""Samplers that reject: Poisson, binomial and gamma numbers, one after the other.

How many uniform numbers a sample takes depends on the numbers, so these are loops. The algorithms
are published ones: Poisson and binomial by transformed rejection (Hoermann, 1993) or by inversion
where the mean is small, gamma after Marsaglia and Tsang (2000). `maquette.backends.loops.samplers`
compiles the very functions of this module: `STEPS` and the loops, with its own `double` and
`normal`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.axes import Array
from maquette.tensor.backend import backend_for
from maquette.tensor.streams.mersenne import MersenneStream, SerialDraws

Numbers = list[float]  # or an array: the loops only read and write elements

_MANY = 1 << 9  # numbers that are worth compiled loops: Python takes 2 us for each
_MOST = 2.0**62  # beyond, one more or less is far below a float's precision
_THIRD = 0.3333333432674408  # a float32, as PyTorch has it
_FEW = 10  # below this mean, counting one by one is quicker than rejecting
# log(k!) less Stirling's approximation, for k up to 9.
_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def double(draws: SerialDraws) -> float:
    """The next uniform number in [0, 1)."""
    return draws.double()


def normal(draws: SerialDraws) -> float:
    """The next standard normal number."""
    return draws.normal()


def _loops(parameters: Array) -> ModuleType | None:
    """The compiled samplers, imported for an array of parameters that is not small."""
    backend = backend_for(np)
    size = parameters.size
    return backend.loops if size >= _MANY else backend.loops_if_worth(80 + 2 * size)


def _drawn(loop: Callable[..., None], stream: MersenneStream, *parameters: Array) -> Array:
    """What one of this module's loops draws, run by Python: of lists, which it reads faster."""
    out = [0.0] * parameters[0].size
    with stream.serial() as draws:
        loop(draws, *[p.tolist() for p in parameters], out)
    return np.array(out)


def poisson_counts(stream: MersenneStream, rates: Array) -> Array:
    """A Poisson count for each rate, in one dimension."""
    loops = _loops(rates)
    if loops is not None:
        found: Array = loops.poisson_counts(stream, rates)
        return found
    return _drawn(poissons, stream, rates)


def _poisson(draws: SerialDraws, rate: float) -> float:
    if math.isnan(rate):
        return math.nan
    if rate > _MOST:
        return rate
    if rate >= _FEW:
        return _poisson_rejected(draws, rate)
    if rate == 0:
        return 0
    limit, product, count = math.exp(-rate), double(draws), 0
    while product > limit:
        count += 1
        product *= double(draws)
    return count


def _poisson_rejected(draws: SerialDraws, rate: float) -> float:
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    surely = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = double(draws) - 0.5
        v = double(draws)
        us = 0.5 - abs(u)
        k = float(np.floor((2 * a / us + b) * u + rate + 0.43))
        if us >= 0.07 and v <= surely:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        tried = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if tried <= -rate + k * log_rate - math.lgamma(k + 1):
            return k


def binomial_counts(stream: MersenneStream, counts: Array, probabilities: Array) -> Array:
    """How many of ``counts`` trials succeed, each with its probability, in one dimension."""
    loops = _loops(counts)
    if loops is not None:
        found: Array = loops.binomial_counts(stream, counts, probabilities)
        return found
    return _drawn(binomials, stream, counts, probabilities)


def _binomial(draws: SerialDraws, n: float, p: float) -> float:
    if n <= 0 or p <= 0:
        return 0
    if p >= 1:
        return n
    if math.isnan(n) or math.isnan(p):
        return math.nan
    if p > 0.5:
        return n - _fewer(draws, n, 1 - p)
    return _fewer(draws, n, p)


def _fewer(draws: SerialDraws, n: float, p: float) -> float:
    """A count for a probability of at most a half."""
    if n * p >= _FEW:
        return _binomial_rejected(draws, n, p)
    steps, successes, log_failure = 0.0, 0, math.log1p(-p)
    while True:
        steps += float(np.ceil(_log(double(draws)) / log_failure))
        if steps > n:
            return successes
        successes += 1


def _binomial_rejected(draws: SerialDraws, n: float, p: float) -> float:
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = n * p + 0.5
    surely = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = float(np.floor((n + 1) * p))
    while True:
        u = double(draws) - 0.5
        v = double(draws)
        us = 0.5 - abs(u)
        k = float(np.floor((2 * a / us + b) * u + center))
        if us >= 0.07 and v <= surely:
            return k
        if k < 0 or k > n:
            continue
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * math.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _tail(mode)
            + _tail(n - mode)
            - _tail(k)
            - _tail(n - k)
        )
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


def _tail(k: float) -> float:
    if k <= 9:
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def gamma_numbers(stream: MersenneStream, alphas: Array) -> Array:
    """A gamma number of scale 1 for each shape parameter, in one dimension."""
    loops = _loops(alphas)
    if loops is not None:
        found: Array = loops.gamma_numbers(stream, alphas)
        return found
    return _drawn(gammas, stream, alphas)


def _gamma(draws: SerialDraws, alpha: float) -> float:
    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = (1 - double(draws)) ** (1 / alpha)
        alpha += 1
    d = alpha - _THIRD
    c = 1 / math.sqrt(9 * d)
    while True:
        x = normal(draws)
        while 1 + c * x <= 0:
            x = normal(draws)
        y = 1 + c * x
        v = y * y * y
        u = 1 - double(draws)
        square = x * x
        if u < 1 - 0.0331 * square * square:
            return scale * d * v
        if math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


# What the loops call; each before those that call it.
STEPS = (
    _log, _tail, _poisson_rejected, _poisson, _binomial_rejected, _fewer, _binomial, _gamma,
)  # fmt: skip


def poissons(draws: SerialDraws, rates: Numbers, out: Numbers) -> None:
    """Put a Poisson count for each rate into ``out``."""
    for i in range(len(rates)):
        out[i] = _poisson(draws, rates[i])


def binomials(draws: SerialDraws, counts: Numbers, probabilities: Numbers, out: Numbers) -> None:
    """Put a binomial count for each pair into ``out``."""
    for i in range(len(counts)):
        out[i] = _binomial(draws, counts[i], probabilities[i])


def gammas(draws: SerialDraws, alphas: Numbers, out: Numbers) -> None:
    """Put a gamma number of scale 1 for each shape parameter into ``out``."""
    for i in range(len(alphas)):
        out[i] = _gamma(draws, alphas[i])
