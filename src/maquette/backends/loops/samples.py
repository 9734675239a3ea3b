"""Values of images at points, and distances of all pairs of rows, with their gradients.

Samples take the plain path's steps and give its bits. Distances are summed in any order: they
differ from the plain ones by a few ulps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, reordered

Array = npt.NDArray[Any]

# --- samples -------------------------------------------------------------------------------

# Planes are [batch, channels, places], points [batch, channels, points]; index, inside and weight
# are of one corner of every point: [batch, points].


@compiled
def _add_corner(plane: Array, index: Array, inside: Array, weight: Array, out: Array) -> None:
    zero = plane.dtype.type(0)
    for p in range(index.size):
        out[p] += (plane[index[p]] if inside[p] else zero) * weight[p]


@compiled
def add_samples(planes: Array, index: Array, inside: Array, weight: Array, out: Array) -> None:
    """Add a corner's share to the values at all points; zero outside."""
    for n in range(planes.shape[0]):
        for c in range(planes.shape[1]):
            _add_corner(planes[n, c], index[n], inside[n], weight[n], out[n, c])


@compiled
def add_to_planes(grad: Array, index: Array, weight: Array, planes: Array) -> None:
    """Add gradients at points to the gradient of a corner's places."""
    for n in range(planes.shape[0]):
        for c in range(planes.shape[1]):
            plane, of_points = planes[n, c], grad[n, c]
            for p in range(of_points.size):
                plane[index[n, p]] += of_points[p] * weight[n, p]


@compiled
def add_pulls(planes: Array, grad: Array, index: Array, inside: Array, out: Array) -> None:
    """Add, over channels, the products of gradients and a corner's values, to [batch, points]."""
    for n in range(planes.shape[0]):
        for c in range(planes.shape[1]):
            _add_corner(planes[n, c], index[n], inside[n], grad[n, c], out[n])


# --- distances of pairs --------------------------------------------------------------------


@reordered
def _length(a: Array, b: Array) -> Any:
    total = a.dtype.type(0)
    for i in range(a.size):
        total += (a[i] - b[i]) * (a[i] - b[i])
    return np.sqrt(total)


@reordered
def _steps(a: Array, b: Array) -> Any:
    total = a.dtype.type(0)
    for i in range(a.size):
        total += abs(a[i] - b[i])
    return total


@compiled
def _pair_lengths(x: Array, out: Array) -> None:
    k = 0
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            out[k] = _length(x[i], x[j])
            k += 1


@compiled
def _pair_steps(x: Array, out: Array) -> None:
    k = 0
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            out[k] = _steps(x[i], x[j])
            k += 1


def pair_distances(x: Array, p: float) -> Array:
    """The distances of order 1 or 2 of all pairs of rows, in the order of the upper triangle."""
    out = np.empty(x.shape[0] * (x.shape[0] - 1) // 2, x.dtype)
    (_pair_steps if p == 1 else _pair_lengths)(np.ascontiguousarray(x), out)
    return out


@compiled
def _pulled(a: Array, b: Array, slope: Any, of_a: Array, of_b: Array) -> None:
    for i in range(a.size):
        pull = (a[i] - b[i]) * slope
        of_a[i] += pull
        of_b[i] -= pull


@compiled
def _pair_pulls(x: Array, slopes: Array, out: Array) -> None:
    k = 0
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            _pulled(x[i], x[j], slopes[k], out[i], out[j])
            k += 1


def pair_gradients(x: Array, slopes: Array) -> Array:
    """What each pair's difference times its slope adds to one row and takes from the other."""
    out = np.zeros(x.shape, x.dtype)
    _pair_pulls(np.ascontiguousarray(x), np.ascontiguousarray(slopes), out)
    return out
