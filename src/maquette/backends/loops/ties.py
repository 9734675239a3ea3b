"""Which of equal elements come first, compiled: the functions of `indexing/equal_elements.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.indexing import equal_elements
from maquette.backends.loops.compiler import compiled, shared

for _step in equal_elements.STEPS:
    shared(_step)

_bring: Any = compiled(equal_elements.bring_first)


@compiled
def _bring_all(lines: Any, k: Any) -> None:
    for i in range(lines.shape[0]):
        _bring(lines[i], k)


def bring_first(lines: npt.NDArray[np.int64], k: int) -> None:
    """Bring the first ``k`` of each row to its beginning, in order."""
    _bring_all(lines, k)
