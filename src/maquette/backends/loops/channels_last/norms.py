"""Normalizations of channels that are columns: of [rows, channels], and of groups of columns.

Rows are taken as many at once as have some hundred elements, with factors and sums for each of
these: loops over the few channels of one row take four times as long. Sums of some hundred rows are
taken in single precision, those of all in double: the plain path's values, to a few ulps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fused

Array = npt.NDArray[Any]

_LINE = 512  # elements from which a loop over them is as fast as one over more
_LINES = 64  # that are added in their own type


@compiled
def _repeats(channels: int) -> int:
    """How many rows are taken at once."""
    return max(1, _LINE // channels)


@compiled
def _repeated(values: Array, out: Array) -> None:
    for start in range(0, out.size, values.size):
        for c in range(values.size):
            out[start + c] = values[c]


@compiled
def _emptied(part: Array, sums: Array) -> None:
    """Add what belongs to each channel to its sum."""
    for start in range(0, part.size, sums.size):
        for c in range(sums.size):
            sums[c] += part[start + c]
            part[start + c] = 0


@compiled
def _add(line: Array, part: Array) -> None:
    for i in range(line.size):
        part[i] += line[i]


@fused
def _add_squares(line: Array, mean: Array, part: Array) -> None:
    for i in range(line.size):
        d = line[i] - mean[i]
        part[i] += d * d


@fused
def _add_slopes(grad: Array, line: Array, mean: Array, plain: Array, product: Array) -> None:
    for i in range(line.size):
        plain[i] += grad[i]
        product[i] += grad[i] * (line[i] - mean[i])


@compiled
def _sums(x: Array, part: Array, sums: Array) -> None:
    """The sums of the columns of a matrix, given as one row."""
    sums[:] = 0
    long, lines = part.size, 0
    for start in range(0, x.size, long):
        line = x[start : start + long]
        _add(line, part[: line.size])
        lines += 1
        if lines % _LINES == 0:
            _emptied(part, sums)
    _emptied(part, sums)


@compiled
def _squares(x: Array, mean: Array, part: Array, sums: Array) -> None:
    sums[:] = 0
    long, lines = part.size, 0
    for start in range(0, x.size, long):
        line = x[start : start + long]
        _add_squares(line, mean[: line.size], part[: line.size])
        lines += 1
        if lines % _LINES == 0:
            _emptied(part, sums)
    _emptied(part, sums)


@compiled
def _slopes(grad: Array, x: Array, mean: Array, parts: Array, sums: Array) -> None:
    """The sums of the columns of ``grad`` and of ``grad * (x - mean)``."""
    sums[:] = 0
    long, lines = mean.size, 0
    for start in range(0, x.size, long):
        line, given = x[start : start + long], grad[start : start + long]
        size = line.size
        _add_slopes(given, line, mean[:size], parts[0, :size], parts[1, :size])
        lines += 1
        if lines % _LINES == 0:
            _emptied(parts[0], sums[0])
            _emptied(parts[1], sums[1])
    _emptied(parts[0], sums[0])
    _emptied(parts[1], sums[1])


@fused
def _scaled(line: Array, scale: Array, shift: Array, out: Array) -> None:
    for i in range(line.size):
        out[i] = line[i] * scale[i] + shift[i]


@compiled
def _scaled_lines(x: Array, scale: Array, shift: Array, out: Array) -> None:
    for start in range(0, x.size, scale.size):
        line = x[start : start + scale.size]
        size = line.size
        _scaled(line, scale[:size], shift[:size], out[start : start + size])


@fused
def _projected(
    grad: Array, line: Array, mean: Array, scale: Array, plain: Array, product: Array, out: Array
) -> None:
    """``grad * scale - plain - (line - mean) * product``."""
    for i in range(line.size):
        out[i] = grad[i] * scale[i] - plain[i] - (line[i] - mean[i]) * product[i]


@compiled
def _projected_lines(grad: Array, x: Array, mean: Array, factors: Array, out: Array) -> None:
    """`_projected` of all lines; factors: scale, plain, product."""
    for start in range(0, x.size, mean.size):
        line = x[start : start + mean.size]
        size = line.size
        given, made = grad[start : start + size], out[start : start + size]
        scale, plain, product = factors[0, :size], factors[1, :size], factors[2, :size]
        _projected(given, line, mean[:size], scale, plain, product, made)


# --- columns: batch norm -------------------------------------------------------------------


@compiled
def _column_moments(x: Array, means: Array, variances: Array) -> None:
    channels = means.size
    rows, long = x.size // channels, _repeats(channels) * channels
    part, mean, sums = np.zeros(long, x.dtype), np.empty(long, x.dtype), np.empty(channels)
    _sums(x, part, sums)
    for c in range(channels):
        means[c] = sums[c] / rows
    _repeated(means, mean)
    _squares(x, mean, part, sums)
    for c in range(channels):
        variances[c] = sums[c] / rows


def column_moments(x: Array) -> tuple[Array, Array]:
    """Means and biased variances of the columns of a matrix."""
    means, variances = np.empty((2, x.shape[1]), x.dtype)
    _column_moments(x.reshape(-1), means, variances)
    return means, variances


def scaled_columns(x: Array, scale: Array, shift: Array) -> Array:
    """Each column of a matrix times its scale plus its shift."""
    out = np.empty(x.shape, x.dtype)
    repeats = max(1, _LINE // x.shape[1])
    factors, shifts = (np.tile(p, repeats) for p in (scale, shift))
    _scaled_lines(x.reshape(-1), factors, shifts, out.reshape(-1))
    return out


@compiled
def _column_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array, out: Array, found: Array
) -> None:
    channels = means.size
    rows, long = x.size // channels, _repeats(channels) * channels
    parts, sums = np.zeros((2, long), x.dtype), np.empty((2, channels))
    mean, factors = np.empty(long, x.dtype), np.empty((3, long), x.dtype)
    _repeated(means, mean)
    _slopes(grad, x, mean, parts, sums)
    for c in range(channels):
        found[0, c], found[1, c] = sums[1, c] * rstds[c], sums[0, c]
        scale = rstds[c] * weight[c]
        factors[0, c] = scale
        factors[1, c] = scale * (sums[0, c] / rows)
        factors[2, c] = scale * (sums[1, c] / rows) * rstds[c] * rstds[c]
    for k in range(3):
        _repeated(factors[k, :channels], factors[k])
    _projected_lines(grad, x, mean, factors, out)


def column_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array | None
) -> tuple[Array, Array, Array]:
    """The gradients by x [rows, channels], weight and bias of a norm by moments of columns."""
    out, found = np.empty(x.shape, x.dtype), np.empty((2, x.shape[1]), x.dtype)
    weight = np.ones(x.shape[1], x.dtype) if weight is None else weight
    given, lines, made = (a.reshape(-1) for a in (grad, x, out))
    _column_gradients(given, lines, means, rstds, weight, made, found)
    return out, found[0], found[1]


# --- groups of columns: group norm ---------------------------------------------------------


@compiled
def _by_group(sums: Array, each: int, count: int, found: Array) -> None:
    """What the columns of each group have on the average, for each of the columns."""
    for first in range(0, sums.size, each):
        total = 0.0
        for c in range(first, first + each):
            total += sums[c]
        for c in range(first, first + each):
            found[c] = total / count


@compiled
def _column_groups(
    x: Array, weight: Array, bias: Array, eps: Any, out: Array, means: Array, rstds: Array
) -> None:
    channels = weight.size
    each, long = channels // means.shape[1], _repeats(channels) * channels
    count = each * (x.shape[1] // channels)
    part, mean, sums = np.zeros(long, x.dtype), np.empty(long, x.dtype), np.empty(channels)
    scale, shift = np.empty(long, x.dtype), np.empty(long, x.dtype)
    variance = np.empty(channels, x.dtype)
    for n in range(x.shape[0]):
        _sums(x[n], part, sums)
        _by_group(sums, each, count, mean)
        _repeated(mean[:channels], mean)
        _squares(x[n], mean, part, sums)
        _by_group(sums, each, count, variance)
        for c in range(channels):
            rstd = x.dtype.type(1) / np.sqrt(variance[c] + eps)
            means[n, c // each], rstds[n, c // each] = mean[c], rstd
            scale[c] = rstd * weight[c]
            shift[c] = bias[c] - mean[c] * scale[c]
        _repeated(scale[:channels], scale)
        _repeated(shift[:channels], shift)
        _scaled_lines(x[n], scale, shift, out[n])


def column_groups(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Groups of the channels of [batch, places, channels] normalized, times weight plus bias.

    Beside it their means and 1 / deviations, [batch, groups].
    """
    out = np.empty(x.shape, x.dtype)
    means, rstds = np.empty((2, x.shape[0], groups), x.dtype)
    weight = np.ones(x.shape[2], x.dtype) if weight is None else weight
    bias = np.zeros(x.shape[2], x.dtype) if bias is None else bias
    lines, made = (a.reshape(len(x), -1) for a in (x, out))
    _column_groups(lines, weight, bias, x.dtype.type(eps), made, means, rstds)
    return out, means, rstds


@compiled
def _column_group_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array, out: Array, found: Array
) -> None:
    channels = weight.size
    each, long = channels // means.shape[1], _repeats(channels) * channels
    count = each * (x.shape[1] // channels)
    parts, sums = np.zeros((2, long), x.dtype), np.empty((2, channels))
    mean, factors = np.empty(long, x.dtype), np.empty((3, long), x.dtype)
    for n in range(x.shape[0]):
        for c in range(channels):
            mean[c] = means[n, c // each]
        _repeated(mean[:channels], mean)
        _slopes(grad[n], x[n], mean, parts, sums)
        for c in range(channels):
            rstd = rstds[n, c // each]
            found[0, c] += sums[1, c] * rstd
            found[1, c] += sums[0, c]
            scale = rstd * weight[c]
            factors[0, c] = scale
            sums[0, c] *= scale
            sums[1, c] *= scale * rstd * rstd
        _by_group(sums[0], each, count, factors[1])
        _by_group(sums[1], each, count, factors[2])
        for k in range(3):
            _repeated(factors[k, :channels], factors[k])
        _projected_lines(grad[n], x[n], mean, factors, out[n])


def column_group_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array | None
) -> tuple[Array, Array, Array]:
    """The gradients by x [batch, places, channels], weight and bias of `column_groups`."""
    out, found = np.empty(x.shape, x.dtype), np.zeros((2, x.shape[2]))
    weight = np.ones(x.shape[2], x.dtype) if weight is None else weight
    lines, given, made = (a.reshape(len(x), -1) for a in (x, grad, out))
    _column_group_gradients(given, lines, means, rstds, weight, made, found)
    by_weight, by_bias = found.astype(x.dtype)
    return out, by_weight, by_bias
