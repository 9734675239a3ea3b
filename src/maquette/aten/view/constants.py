"""Tensors of numbers that a composite works out from shapes alone: an index, a list of lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maquette.aten.view.views import lift_fresh
from maquette.core.device import cpu
from maquette.core.dtype import dtype
from maquette.tensor.tensor import Tensor, from_array


def constant(numbers: Sequence[int] | npt.NDArray[np.int64], kind: dtype) -> Tensor:
    """A tensor on cpu, shape (len(numbers),); modes learn of it by ``lift_fresh``."""
    lifted: Tensor = lift_fresh(from_array(np.array(numbers, kind.numpy), cpu))
    return lifted
