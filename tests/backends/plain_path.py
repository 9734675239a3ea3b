"""What tests of compiled loops share: the plain path beside them, and numbers of all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import maquette.torch as torch
from maquette.tensor.backend import backend_of
from maquette.tensor.tensor import Tensor

pytest.importorskip("numba", reason="the loops are compiled by Numba: pip install 'maquette[fast]'")

LARGE = 40_000


@pytest.fixture
def plainly() -> Iterator[Callable[[Callable[[], object]], object]]:
    """Runs a function without compiled loops."""
    backend = backend_of("cpu")
    compiled = backend.loops
    assert compiled is not None

    def run(function: Callable[[], object]) -> object:
        backend.loops = None
        try:
            return function()
        finally:
            backend.loops = compiled

    yield run
    backend.loops = compiled


Plainly = Callable[[Callable[[], object]], object]


def arrays(result: object) -> list[np.ndarray]:
    """The arrays of a tensor or of several."""
    given = result if isinstance(result, (tuple, list)) else [result]
    return [t.detach().numpy().copy() for t in given if isinstance(t, Tensor)]


def ulps(a: np.ndarray, b: np.ndarray) -> float:
    """How many units in the last place of the larger two arrays differ by at most."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    a, b = a[~same], b[~same]
    return float(np.max(np.abs(a - b) / np.spacing(np.maximum(np.abs(a), np.abs(b))), initial=0))


def spread_out() -> Tensor:
    """Numbers of every size, and those that no arithmetic reaches."""
    torch.manual_seed(0)
    x = torch.randn(LARGE) * torch.tensor([1e-30, 1e-3, 1.0, 3.0, 30.0]).repeat(LARGE // 5)
    x[:6] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-42])
    return x


def trained(function: Callable[..., Tensor], *given: Tensor) -> Callable[[], object]:
    """The gradients of a function by all of its tensors, from one fixed gradient."""

    def run() -> object:
        leaves = [t.detach().requires_grad_() for t in given]
        out = function(*leaves)
        torch.manual_seed(5)
        out.backward(torch.randn(out.shape))
        return [out, *[t.grad for t in leaves]]

    return run
