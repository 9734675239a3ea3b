"""Derivatives against central differences, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

import maquette as mq

Floats = npt.NDArray[np.float64]
Function = Callable[..., object]
STEP = 1e-6


def outputs_of(result: object) -> list[mq.Tensor]:
    """The differentiable tensors among an operator's results."""
    results = result if isinstance(result, (tuple, list)) else [result]
    tensors = [t for t in results if isinstance(t, mq.Tensor)]
    return [t for t in tensors if t.requires_grad]


def analytic(function: Function, arrays: Sequence[Floats], weights: list[Floats]) -> list[Floats]:
    """Gradients of the weighted sum of all outputs, by formulas; fills ``weights`` when empty."""
    inputs = [mq.from_numpy(a.copy()).requires_grad_() for a in arrays]
    outputs = outputs_of(function(*inputs))
    if not weights:
        random = np.random.default_rng(7)
        weights += [random.standard_normal(tuple(o.shape)) for o in outputs]
    grads = mq.autograd.grad(
        outputs, inputs, grad_outputs=[mq.from_numpy(w) for w in weights], allow_unused=True
    )
    return [
        np.zeros_like(a) if g is None else g.detach().numpy()
        for a, g in zip(arrays, grads, strict=True)
    ]


def weighted_sum(function: Function, arrays: Sequence[Floats], weights: list[Floats]) -> float:
    """What `analytic` differentiates."""
    inputs = [mq.from_numpy(a).requires_grad_() for a in arrays]
    outputs = outputs_of(function(*inputs))
    pairs = zip(outputs, weights, strict=True)
    return float(sum((o.detach().numpy() * w).sum() for o, w in pairs))


def numeric(function: Function, arrays: Sequence[Floats], weights: list[Floats]) -> list[Floats]:
    """The same by central differences, element by element."""
    found = [np.zeros_like(a) for a in arrays]
    for i, array in enumerate(arrays):
        for position in np.ndindex(array.shape):
            sides = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[i][position] += sign * STEP
                sides.append(weighted_sum(function, moved, weights))
            found[i][position] = (sides[0] - sides[1]) / (2 * STEP)
    return found


def check_gradients(function: Function, *arrays: Floats, tolerance: float = 1e-5) -> None:
    """Fail unless formulas and differences agree on every element of every input."""
    weights: list[Floats] = []
    by_formula = analytic(function, arrays, weights)
    by_difference = numeric(function, arrays, weights)
    for formula, difference in zip(by_formula, by_difference, strict=True):
        np.testing.assert_allclose(formula, difference, rtol=tolerance, atol=tolerance)


def check_second_gradients(function: Function, *arrays: Floats, tolerance: float = 1e-4) -> None:
    """The same of the gradients, as functions of the inputs."""

    def gradients(*inputs: mq.Tensor) -> object:
        outputs = outputs_of(function(*inputs))
        random = np.random.default_rng(11)
        weights = [mq.from_numpy(random.standard_normal(tuple(o.shape))) for o in outputs]
        return mq.autograd.grad(outputs, inputs, grad_outputs=weights, create_graph=True)

    check_gradients(gradients, *arrays, tolerance=tolerance)
