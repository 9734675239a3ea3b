"""NumPy as the array namespace of ``cpu``."""

from __future__ import annotations

import numpy

from maquette.tensor.storage import provide_namespace


def namespace() -> object:
    """The namespace that page kernels get as ``xp`` for data on cpu."""
    return numpy


provide_namespace("cpu", namespace)
