"""Moments, normalizations and their gradients, in one or two passes each.

Of arrays of one type, single or double. Sums are taken in several lanes, in runs of 1,024 elements
that meet in double precision: they are as near to the exact sums as the plain path's, and differ
from those by a few ulps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import fused, reordered

Array = npt.NDArray[Any]

_RUN = 1024  # elements of a row that are summed in its type
_ROWS = 64  # rows that are summed so, column by column


# Rows are taken as arrays of their own, and runs as slices: an index that is known not to be
# negative is what lets the compiler take several elements at once.


@reordered
def sum_of(row: Array) -> Any:
    """The sum of a row, in double precision."""
    total = np.float64(0)
    for start in range(0, row.size, _RUN):
        run, part = row[start : start + _RUN], row.dtype.type(0)
        for i in range(run.size):
            part += run[i]
        total += part
    return total


@reordered
def _squares(row: Array, mean: Any) -> Any:
    total = np.float64(0)
    for start in range(0, row.size, _RUN):
        run, part = row[start : start + _RUN], row.dtype.type(0)
        for i in range(run.size):
            d = run[i] - mean
            part += d * d
        total += part
    return total


@reordered
def _product(a: Array, b: Array, mean: Any) -> Any:
    """The sum of ``a * (b - mean)``."""
    total = np.float64(0)
    for start in range(0, a.size, _RUN):
        first, second, part = a[start : start + _RUN], b[start : start + _RUN], a.dtype.type(0)
        for i in range(first.size):
            part += first[i] * (second[i] - mean)
        total += part
    return total


# --- moments of rows and of channels -------------------------------------------------------


@reordered
def _row_moments(x: Array, means: Array, variances: Array) -> None:
    for r in range(x.shape[0]):
        mean = x.dtype.type(sum_of(x[r]) / x.shape[1])
        means[r] = mean
        variances[r] = x.dtype.type(_squares(x[r], mean) / x.shape[1])


@reordered
def _channel_moments(x: Array, means: Array, variances: Array) -> None:
    count = x.shape[0] * x.shape[2]
    for c in range(x.shape[1]):
        total = 0.0
        for n in range(x.shape[0]):
            total += sum_of(x[n, c])
        mean = x.dtype.type(total / count)
        total = 0.0
        for n in range(x.shape[0]):
            total += _squares(x[n, c], mean)
        means[c] = mean
        variances[c] = x.dtype.type(total / count)


def row_moments(x: Array) -> tuple[Array, Array]:
    """Means and biased variances of the rows of a matrix."""
    means, variances = np.empty((2, x.shape[0]), x.dtype)
    _row_moments(x, means, variances)
    return means, variances


def channel_moments(x: Array) -> tuple[Array, Array]:
    """Means and biased variances of the channels of [batch, channels, places]."""
    means, variances = np.empty((2, x.shape[1]), x.dtype)
    _channel_moments(x, means, variances)
    return means, variances


@fused
def _scaled(row: Array, scale: Any, shift: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = row[i] * scale + shift


@fused
def _scaled_rows(x: Array, scale: Array, shift: Array, out: Array) -> None:
    for r in range(x.shape[0]):
        _scaled(x[r], scale[r], shift[r], out[r])


def scaled_rows(x: Array, scale: Array, shift: Array) -> Array:
    """Each row of a matrix times its scale plus its shift."""
    out = np.empty(x.shape, x.dtype)
    _scaled_rows(x, scale, shift, out)
    return out


# --- rows: layer norm ----------------------------------------------------------------------


@fused
def _normalized(row: Array, mean: Any, rstd: Any, weight: Array, bias: Array, out: Array) -> None:
    for i in range(row.size):
        out[i] = (row[i] - mean) * rstd * weight[i] + bias[i]


@reordered
def _row_norm(
    x: Array, weight: Array, bias: Array, eps: Any, out: Array, means: Array, rstds: Array
) -> None:
    for r in range(x.shape[0]):
        mean = x.dtype.type(sum_of(x[r]) / x.shape[1])
        variance = x.dtype.type(_squares(x[r], mean) / x.shape[1])
        rstd = x.dtype.type(1) / np.sqrt(variance + eps)
        means[r], rstds[r] = mean, rstd
        _normalized(x[r], mean, rstd, weight, bias, out[r])


def row_norm(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """The rows of a matrix normalized, times weight plus bias; their means and 1 / deviations."""
    out = np.empty(x.shape, x.dtype)
    means, rstds = np.empty((2, x.shape[0]), x.dtype)
    weight = np.ones(x.shape[1], x.dtype) if weight is None else weight
    bias = np.zeros(x.shape[1], x.dtype) if bias is None else bias
    _row_norm(x, weight, bias, x.dtype.type(eps), out, means, rstds)
    return out, means, rstds


@fused
def _weighted(
    grad: Array, row: Array, mean: Any, rstd: Any, weight: Array, out: Array, sums: Array
) -> None:
    """The gradient times the weight; what the row adds to those of weight and bias."""
    by_weight, by_bias = sums[0], sums[1]
    for i in range(row.size):
        g = grad[i]
        out[i] = g * weight[i]
        by_weight[i] += g * ((row[i] - mean) * rstd)
        by_bias[i] += g


@fused
def _projected(
    grad: Array, row: Array, mean: Any, scale: Any, plain: Any, product: Any, out: Array
) -> None:
    """``scale * (grad - plain - (row - mean) * product)``."""
    for i in range(row.size):
        out[i] = scale * (grad[i] - plain - (row[i] - mean) * product)


@fused
def _emptied(part: Array, sums: Any) -> None:
    for i in range(part.size):
        sums[i] += part[i]
        part[i] = 0


@reordered
def _row_gradients(
    grad: Array,
    x: Array,
    means: Array,
    rstds: Array,
    weight: Array,
    out: Array,
    sums: Any,
) -> None:
    count = x.shape[1]
    weighted = np.empty(count, x.dtype)
    part = np.zeros((2, count), x.dtype)
    for r in range(x.shape[0]):
        mean, rstd = means[r], rstds[r]
        _weighted(grad[r], x[r], mean, rstd, weight, weighted, part)
        plain = x.dtype.type(sum_of(weighted) / count)
        product = x.dtype.type(_product(weighted, x[r], mean) / count) * rstd * rstd
        _projected(weighted, x[r], mean, rstd, plain, product, out[r])
        if r % _ROWS == _ROWS - 1 or r == x.shape[0] - 1:
            _emptied(part[0], sums[0])
            _emptied(part[1], sums[1])


def row_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array | None
) -> tuple[Array, Array, Array]:
    """The gradients by the rows, the weight and the bias of `row_norm`."""
    out, sums = np.empty(x.shape, x.dtype), np.zeros((2, x.shape[1]))
    weight = np.ones(x.shape[1], x.dtype) if weight is None else weight
    _row_gradients(grad, x, means, rstds, weight, out, sums)
    by_weight, by_bias = sums.astype(x.dtype)
    return out, by_weight, by_bias


# --- channels: batch norm ------------------------------------------------------------------


@reordered
def _channel_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array, out: Array, sums: Array
) -> None:
    count = x.shape[0] * x.shape[2]
    for c in range(x.shape[1]):
        mean, rstd = means[c], rstds[c]
        plain, product = 0.0, 0.0
        for n in range(x.shape[0]):
            plain += sum_of(grad[n, c])
            product += _product(grad[n, c], x[n, c], mean)
        sums[0, c], sums[1, c] = x.dtype.type(product * rstd), x.dtype.type(plain)
        scale = rstd * weight[c]
        a = x.dtype.type(plain / count)
        b = x.dtype.type(product / count) * rstd * rstd
        for n in range(x.shape[0]):
            _projected(grad[n, c], x[n, c], mean, scale, a, b, out[n, c])


def channel_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array | None
) -> tuple[Array, Array, Array]:
    """The gradients by x [batch, channels, places], weight and bias of a norm by batch moments."""
    out, sums = np.empty(x.shape, x.dtype), np.empty((2, x.shape[1]), x.dtype)
    weight = np.ones(x.shape[1], x.dtype) if weight is None else weight
    _channel_gradients(grad, x, means, rstds, weight, out, sums)
    return out, sums[0], sums[1]


# --- groups of channels: group norm --------------------------------------------------------


@fused
def _projected_channel(
    grad: Array, row: Array, mean: Any, scale: Any, plain: Any, product: Any, out: Array
) -> None:
    """``grad * scale - plain - (row - mean) * product``."""
    for i in range(row.size):
        out[i] = grad[i] * scale - plain - (row[i] - mean) * product


@reordered
def _group_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array, out: Array, sums: Any
) -> None:
    each = x.shape[1] // means.shape[1]
    count = each * x.shape[2]
    for n in range(x.shape[0]):
        for g in range(means.shape[1]):
            mean, rstd = means[n, g], rstds[n, g]
            plain, product = 0.0, 0.0
            for c in range(g * each, (g + 1) * each):
                added = sum_of(grad[n, c])
                multiplied = _product(grad[n, c], x[n, c], mean)
                sums[0, c] += multiplied * rstd
                sums[1, c] += added
                plain += added * weight[c]
                product += multiplied * weight[c]
            a = x.dtype.type(plain / count) * rstd
            b = x.dtype.type(product / count) * rstd * rstd * rstd
            for c in range(g * each, (g + 1) * each):
                _projected_channel(grad[n, c], x[n, c], mean, rstd * weight[c], a, b, out[n, c])


def group_gradients(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array | None
) -> tuple[Array, Array, Array]:
    """The gradients by x [batch, channels, places], weight and bias of a norm of groups.

    means, rstds: [batch, groups], row-major as all others.
    """
    out, sums = np.empty(x.shape, x.dtype), np.zeros((2, x.shape[1]))
    weight = np.ones(x.shape[1], x.dtype) if weight is None else weight
    _group_gradients(grad, x, means, rstds, weight, out, sums)
    by_weight, by_bias = sums.astype(x.dtype)
    return out, by_weight, by_bias
