"""`gradcheck` and `gradgradcheck`: what backward gives against small differences of the function.

A complex output is checked as two real functions, its parts. The gradient of a real function f of
x + iy is df/dx + i df/dy, which differences of both parts give.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import grad
from maquette.tensor.tensor import Tensor
from maquette.torch.autograd.sparse_gradcheck import of_values

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
    nondet_tol: float = 0.0,
    masked: bool = False,
    **options: object,
) -> bool:
    """Whether backward of ``func(*inputs)`` agrees with central differences of step eps.

    inputs: tensors to be checked require grad, in float64 as a rule; they are changed in place
    while the differences are taken. raise_exception: GradcheckError in place of False. nondet_tol:
    how much two runs of backward may differ. masked: whether of sparse inputs only those elements
    vary that they specify. PyTorch's further options choose checks not made here.
    """
    listed = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    func, listed = of_values(func, listed, masked=masked)
    try:
        _check(func, listed, eps, atol, rtol, nondet_tol)
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
        starts = [start.detach().requires_grad_(start.requires_grad) for start in given]

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
    return [out for out in listed if isinstance(out, Tensor) and out.requires_grad]


def _check(
    func: Function, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet: float
) -> None:
    checked = [(i, value) for i, value in enumerate(inputs) if _is_checked(value)]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    outputs = _outputs(func, inputs)
    tensors = [value for _, value in checked]
    for number, out in enumerate(outputs):
        for part in _PARTS if out.is_complex() else _PARTS[1:]:
            analytical = _analytical(out, tensors, part)
            again = _analytical(out, tensors, part)
            for (place, value), theirs, twice in zip(checked, analytical, again, strict=True):
                numerical = _numerical(func, inputs, value, number, eps, part)
                if not mq.allclose(theirs, numerical.to(theirs.dtype), rtol, atol):
                    raise GradcheckError(_mismatch(out, number, place, numerical, theirs, part))
                if not mq.allclose(theirs, twice, 0.0, nondet):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and "
                        "grad_output multiple times gives different values, although analytical "
                        f"gradient matches numerical gradient. The tolerance for nondeterminism "
                        f"was {nondet}."
                    )


def _mismatch(
    out: Tensor, number: int, place: int, numerical: Tensor, analytical: Tensor, part: str
) -> str:
    words = "imaginary" if part == "imag" else "real"
    start = f"While considering the {words} part of complex outputs only, " * out.is_complex()
    return (
        f"{start}Jacobian mismatch for output {number} with respect to input {place},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


# The parts of a complex output are real functions, each checked by itself; with what backward
# starts from for it.
_PARTS = ("imag", "real")
_STARTS = {"real": 1, "imag": 1j}


def _analytical(out: Tensor, inputs: list[Tensor], part: str) -> list[Tensor]:
    """The Jacobians (input, output), an element of the output at a time."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for place in _places(out):
        start = mq.zeros_like(out)
        start[place] = _STARTS[part]
        found = grad(out, inputs, start, retain_graph=True, allow_unused=True)
        for row, value, g in zip(rows, inputs, found, strict=True):
            row.append((mq.zeros_like(value) if g is None else g.detach()).reshape(-1))
    return [_stacked(row, 1, value.numel()) for row, value in zip(rows, inputs, strict=True)]


def _numerical(
    func: Function, inputs: tuple[Any, ...], value: Tensor, number: int, eps: float, part: str
) -> Tensor:
    """The Jacobian (input, output) by central differences, ``value`` being changed in place."""
    rows: list[Tensor] = []
    memory = value.data
    for place in _places(memory):
        held = memory[place].clone()

        def slope(step: complex, place: tuple[int, ...] = place, held: Tensor = held) -> Tensor:
            ends: list[Tensor] = []
            for end in (-step, step):
                memory[place] = held + end
                out = _outputs(func, inputs)[number].detach()
                ends.append((getattr(out, part) if out.is_complex() else out).reshape(-1).clone())
            memory[place] = held
            return (ends[1] - ends[0]) / (2 * eps)

        row = slope(eps)
        rows.append(mq.complex(row, slope(eps * 1j)) if value.is_complex() else row)
    return _stacked(rows, 0, _outputs(func, inputs)[number].numel())


def _stacked(rows: list[Tensor], dim: int, size: int) -> Tensor:
    if rows:
        return mq.stack(rows, dim)
    return mq.zeros((0, size) if dim == 0 else (size, 0))


def _places(t: Tensor) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in t.shape))
