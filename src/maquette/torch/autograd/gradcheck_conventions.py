"""What `gradcheck` asks of backward beside right numbers.

Gradients are laid out as their inputs, are linear in what backward starts from, and backward and
forward mode take "no gradient" and "no tangent" for zeros.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import grad
from maquette.autograd.probing_nodes import UndefinedGrad
from maquette.core.dtype import complex128, float64
from maquette.core.layout import sparse_coo, strided
from maquette.tensor.tensor import Tensor
from maquette.transforms.forward_ad import dual_level, make_dual, unpack_dual

Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """A gradient is wrong, or there is none to check."""


def check_inputs(inputs: Sequence[Any]) -> None:
    """Warn of inputs whose differences are too coarse; refuse those that lie over themselves."""
    for i, t in enumerate(inputs):
        if not isinstance(t, Tensor) or not t.requires_grad:
            continue
        if t.dtype not in (float64, complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                f"complex ({t.dtype}). This check will likely fail: pass float64 or complex128",
                stacklevel=4,
            )
        if t.layout is strided and any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck changes elements one by "
                f"one, so none may be another's: call contiguous() on it first"
            )


def _grads(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], starts: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    return grad(outputs, inputs, starts, retain_graph=True, allow_unused=True)


def check_linear(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Backward from zeros gives zeros, laid out as the inputs are."""
    if not outputs:
        return
    found = _grads(outputs, inputs, [mq.zeros_like(out) for out in outputs])
    for g, t in zip(found, inputs, strict=True):
        if g is None:
            continue
        if g.layout is not strided and g.layout is not t.layout:
            raise GradcheckError(f"grad is incorrect layout ({g.layout} is not {t.layout})")
        if g.layout is sparse_coo:
            for name in ("sparse_dim", "dense_dim"):
                if getattr(g, name)() != getattr(t, name)():
                    raise GradcheckError(
                        f"grad is sparse tensor, but has incorrect {name}: {getattr(g, name)()} in "
                        f"place of {getattr(t, name)()}"
                    )
        if g.shape != t.shape or g.dtype is not t.dtype:
            raise GradcheckError(f"grad is {g.meta} for an input of {t.meta}")
        if dense_of(g).count_nonzero():
            raise GradcheckError("backward not multiplied by grad_output")


def dense_of(t: Tensor) -> Tensor:
    """A tensor in the strided layout."""
    dense: Tensor = t if t.layout is strided else t.detach().to_dense()
    return dense


_UNDEFINED = (
    "Expected backward function to handle undefined output grads, as zeros. A backward may be "
    "given None for an output that nothing used: {}"
)


def check_undefined(func: Function, inputs: Sequence[Any]) -> None:
    """Backward takes no gradient for zeros: of all outputs, and of each."""
    tensors = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    outputs = _differentiable(func(*inputs))
    choices = [list(range(len(outputs)))]
    if len(outputs) > 1:
        choices += [[i] for i in range(len(outputs))]
    for chosen in choices if outputs else ():
        outputs = _differentiable(func(*inputs))
        ends: list[Any] = [
            UndefinedGrad()(out) if i in chosen else out for i, out in enumerate(outputs)
        ]
        try:
            found = _grads(ends, tensors, [mq.zeros_like(out) for out in outputs])
        except Exception as error:  # whatever a hook or a Function raises that cannot take None
            _warn_of_the_check()
            raise GradcheckError(_UNDEFINED.format(error)) from error
        if any(g is not None and dense_of(g).count_nonzero() for g in found):
            _warn_of_the_check()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are "
                "undefined or zero"
            )


def _warn_of_the_check() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by "
        "default; check_undefined_grad=False leaves it out",
        stacklevel=5,
    )


def _differentiable(result: Any) -> list[Tensor]:
    listed = (result,) if isinstance(result, Tensor) else tuple(result)
    return [out for out in listed if isinstance(out, Tensor) and out.requires_grad]


def check_undefined_forward(func: Function, inputs: Sequence[Any]) -> None:
    """Forward mode takes no tangent for zeros."""
    checked = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    plain = [t.detach() if isinstance(t, Tensor) and t.requires_grad else t for t in inputs]
    directions = {i: mq.randn_like(plain[i]) for i in checked}
    for still in checked:
        with dual_level():
            moving = [
                make_dual(t, directions[i]) if i in directions and i != still else t
                for i, t in enumerate(plain)
            ]
            with_zeros = list(moving)
            with_zeros[still] = make_dual(plain[still], mq.zeros_like(plain[still]))
            pairs = zip(_tangents(func(*with_zeros)), _tangents(func(*moving)), strict=True)
            for number, (one, other) in enumerate(pairs):
                if not mq.allclose(one, other, 1e-5, 1e-8):
                    raise GradcheckError(
                        f"Mismatch in tangent values for output with index: {number} when input: "
                        f"{still} has an undefined tangent value. Got: {other} but expected: {one}"
                    )


def _tangents(result: Any) -> list[Tensor]:
    listed = (result,) if isinstance(result, Tensor) else tuple(result)
    found = [unpack_dual(out) for out in listed if isinstance(out, Tensor)]
    return [mq.zeros_like(p) if t is None else t for p, t in found]


__all__ = [
    "GradcheckError",
    "check_inputs",
    "check_linear",
    "check_undefined",
    "check_undefined_forward",
    "dense_of",
]
