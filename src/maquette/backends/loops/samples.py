"""Values of images at points, with their gradients: the plain path's steps, and its bits."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from maquette.backends.loops.compiler import compiled

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
