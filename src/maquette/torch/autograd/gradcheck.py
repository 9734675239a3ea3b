"""`gradcheck` and `gradgradcheck`: what backward gives against small differences of the function.

Real functions of real or complex inputs are not the concern here: real inputs and outputs only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import grad, no_grad
from maquette.core.layout import contiguous_format
from maquette.tensor.tensor import Tensor

Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """A gradient is wrong, or there is none to check."""


def gradcheck(
    func: Function,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **options: object,
) -> bool:
    """Whether backward of ``func(*inputs)`` agrees with central differences of step eps.

    inputs: tensors to be checked require grad, in float64 as a rule. raise_exception:
    GradcheckError in place of False. PyTorch's further options choose checks not made here.
    """
    listed = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check(func, listed, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **options: object,
) -> bool:
    """`gradcheck` of the gradients, as functions of inputs and of the outputs' gradients."""
    listed = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, listed)
    if grad_outputs is None:
        starts = [mq.randn_like(out).requires_grad_() for out in outputs]
    else:
        given = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
        starts = [start.detach().requires_grad_() for start in given]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        own, their = args[: len(listed)], args[len(listed) :]
        results = _outputs(func, own)
        checked = [arg for arg in own if _is_checked(arg)]
        found = grad(results, checked, their, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(
        gradients,
        (*listed, *starts),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
    )


def _is_checked(value: object) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _outputs(func: Function, inputs: Sequence[Any]) -> list[Tensor]:
    """The results that can be differentiated."""
    result = func(*inputs)
    listed = (result,) if isinstance(result, Tensor) else tuple(result)
    found = [out for out in listed if isinstance(out, Tensor) and out.requires_grad]
    if any(out.is_complex() for out in found):
        raise NotImplementedError("gradcheck is for real results only: take their real parts")
    return found


def _check(func: Function, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    if not any(_is_checked(value) for value in inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have requires_grad=True."
        )
    outputs = _outputs(func, inputs)
    checked = [(i, value) for i, value in enumerate(inputs) if _is_checked(value)]
    for number, out in enumerate(outputs):
        analytical = _analytical(out, [value for _, value in checked])
        for (place, _), theirs in zip(checked, analytical):
            numerical = _numerical(func, inputs, place, number, eps)
            if not mq.allclose(theirs, numerical, rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {number} with respect to input {place},\n"
                    f"numerical:{numerical}\nanalytical:{theirs}\n"
                )


def _analytical(out: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """The Jacobians (input, output), an element of the output at a time."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for i in range(out.numel()):
        start = mq.zeros_like(out)
        start.view(-1)[i] = 1
        found = grad(out, inputs, start, retain_graph=True, allow_unused=True)
        for row, value, g in zip(rows, inputs, found):
            row.append((mq.zeros_like(value) if g is None else g.detach()).reshape(-1))
    return [mq.stack(row, 1) for row in rows]


def _numerical(
    func: Function, inputs: tuple[Any, ...], place: int, number: int, eps: float
) -> Tensor:
    """The Jacobian (input, output) by central differences."""
    value = inputs[place]
    rows: list[Tensor] = []
    for i in range(value.numel()):
        ends: list[Tensor] = []
        for step in (-eps, eps):
            with no_grad():
                moved = value.detach().clone(memory_format=contiguous_format)
                moved.view(-1)[i] += step
            args = (*inputs[:place], moved.requires_grad_(), *inputs[place + 1 :])
            ends.append(_outputs(func, args)[number].detach().reshape(-1))
        rows.append((ends[1] - ends[0]) / (2 * eps))
    return mq.stack(rows)
