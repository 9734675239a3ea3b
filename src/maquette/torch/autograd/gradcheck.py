"""`gradcheck` and `gradgradcheck`: what backward gives against small differences of the function.

A complex output is checked as two real functions, its parts. The gradient of a real function f of
x + iy is df/dx + i df/dy, which differences of both parts give.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import grad
from maquette.tensor.tensor import Tensor
from maquette.torch._vmap_internals import _vmap as vmap
from maquette.torch.autograd.gradcheck_conventions import (
    GradcheckError,
    check_inputs,
    check_linear,
    check_undefined,
    check_undefined_forward,
    dense_of,
)
from maquette.torch.autograd.sparse_gradcheck import of_values
from maquette.torch.face.forwarding import forward
from maquette.transforms.forward_ad import dual_level, make_dual, unpack_dual

Function = Callable[..., Any]


@dataclass(frozen=True)
class _Options:
    """What is checked, and how closely; see `gradcheck`."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_backward_ad: bool = True
    check_forward_ad: bool = False
    check_batched_grad: bool = False
    check_batched_forward_grad: bool = False
    check_grad_dtypes: bool = False


def gradcheck(
    func: Function,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether backward of ``func(*inputs)`` agrees with central differences of step eps.

    inputs: tensors to be checked require grad, in float64 as a rule; they are changed in place
    while the differences are taken. raise_exception: GradcheckError in place of False. nondet_tol:
    how much two runs of backward may differ. check_forward_ad: tangents too, check_backward_ad:
    gradients. check_batched_grad, check_batched_forward_grad: whether `vmap` over them gives the
    same. check_grad_dtypes: gradients have their inputs' dtypes.

    masked: whether of sparse inputs only those elements vary that they specify.

    check_undefined_grad: whether backward takes "no gradient", and forward mode "no tangent", for
    zeros.

    Different from PyTorch: fast_mode checks all as the slow mode does.
    """
    if not check_forward_ad and not check_backward_ad:
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    listed = given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    check_inputs(given)
    whole = func
    func, listed = of_values(func, given, masked=masked)
    options = _Options(
        eps, atol, rtol, nondet_tol, check_backward_ad, check_forward_ad, check_batched_grad,
        check_batched_forward_grad, check_grad_dtypes,
    )  # fmt: skip
    try:
        _check(func, listed, options)
        if check_backward_ad:
            tensors = [t for t in given if _is_checked(t)]
            check_linear(_outputs(whole, given), tensors)
            if check_undefined_grad:
                check_undefined(whole, given)
        if check_forward_ad and check_undefined_grad:
            check_undefined_forward(func, listed)
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
    gen_non_contig_grad_outputs: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    **options: Any,
) -> bool:
    """`gradcheck` of the gradients, as functions of inputs and of the outputs' gradients.

    gen_non_contig_grad_outputs: those are not contiguous. check_fwd_over_rev: tangents of the
    gradients, check_rev_over_rev: gradients of them. options: as `gradcheck` has them.
    """
    if not check_fwd_over_rev and not check_rev_over_rev:
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    listed = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, listed)
    if grad_outputs is None:
        starts = [_random_start(out, gen_non_contig_grad_outputs) for out in outputs]
    else:
        given = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
        starts = [start.detach().requires_grad_(start.requires_grad) for start in given]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        own, their = args[: len(listed)], args[len(listed) :]
        # Forward mode gives dual numbers of leaves that do not require grad.
        own = tuple([a.requires_grad_() if _is_checked(t) else a for a, t in zip(own, listed)])
        results = _outputs(func, own)
        checked = [arg for arg in own if _is_checked(arg)]
        found = grad(results, checked, their, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    modes = {"check_forward_ad": check_fwd_over_rev, "check_backward_ad": check_rev_over_rev}
    return gradcheck(gradients, (*listed, *starts), **(options | modes))


def _random_start(out: Tensor, scattered: bool) -> Tensor:
    start = mq.randn_like(out)
    if scattered:
        start = mq.stack([start, start], -1)[..., 0]
    return start.detach().requires_grad_()


def _is_checked(value: object) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _results(func: Function, inputs: Sequence[Any]) -> list[Tensor]:
    result = func(*inputs)
    listed = (result,) if isinstance(result, Tensor) else tuple(result)
    return [out for out in listed if isinstance(out, Tensor)]


def _outputs(func: Function, inputs: Sequence[Any]) -> list[Tensor]:
    """The results that can be differentiated."""
    return [out for out in _results(func, inputs) if out.requires_grad]


def _check(func: Function, inputs: tuple[Any, ...], options: _Options) -> None:
    checked = [(i, value) for i, value in enumerate(inputs) if _is_checked(value)]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    outputs = _outputs(func, inputs)
    if not outputs:
        _check_flat(func, inputs, checked, options.eps)
    slopes: dict[tuple[int, str], list[Tensor]] = {}
    for number, out in enumerate(outputs):
        for part in _PARTS if out.is_complex() else _PARTS[1:]:
            slopes[number, part] = found = [
                _numerical(func, inputs, value, number, options.eps, part) for _, value in checked
            ]
            if options.check_backward_ad:
                _check_backward(out, number, checked, found, part, options)
        if options.check_batched_grad:
            _check_batched(out, [value for _, value in checked])
    if options.check_forward_ad:
        columns = [_forward(func, inputs, i) for i, _ in checked]
        for (number, part), found in slopes.items():
            tangents = [column[number][part] for column in columns]
            _compare(outputs[number], number, checked, found, tangents, part, options, "forward")
    if options.check_batched_forward_grad:
        _check_batched_forward(func, inputs, checked)


def _check_flat(
    func: Function, inputs: tuple[Any, ...], checked: list[tuple[int, Tensor]], eps: float
) -> None:
    """Where no result can be differentiated, none may depend on an input."""
    for number, out in enumerate(_results(func, inputs)):
        if not (out.is_floating_point() or out.is_complex()):
            continue
        for _, value in checked:
            if _numerical(func, inputs, value, number, eps, "real", _results).count_nonzero():
                raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_backward(
    out: Tensor,
    number: int,
    checked: list[tuple[int, Tensor]],
    slopes: list[Tensor],
    part: str,
    options: _Options,
) -> None:
    tensors = [value for _, value in checked]
    analytical = _analytical(out, tensors, part, options.check_grad_dtypes)
    again = _analytical(out, tensors, part)
    _compare(out, number, checked, slopes, analytical, part, options)
    for first, second in zip(analytical, again, strict=True):
        if not mq.allclose(first, second, 0.0, options.nondet_tol):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and "
                "grad_output multiple times gives different values, although analytical "
                f"gradient matches numerical gradient. The tolerance for nondeterminism "
                f"was {options.nondet_tol}."
            )


def _compare(
    out: Tensor,
    number: int,
    checked: list[tuple[int, Tensor]],
    slopes: list[Tensor],
    analytical: list[Tensor],
    part: str,
    options: _Options,
    mode: str = "",
) -> None:
    for (place, _), slope, found in zip(checked, slopes, analytical, strict=True):
        if not mq.allclose(found, slope.to(found.dtype), options.rtol, options.atol):
            raise GradcheckError(_mismatch(out, number, place, slope, found, part, mode))


def _forward(func: Function, inputs: tuple[Any, ...], at: int) -> list[dict[str, Tensor]]:
    """For each output its parts' Jacobians (input, output), by an element of input ``at`` each."""
    value: Tensor = inputs[at]
    outputs = _results(func, inputs)
    chosen = [i for i, out in enumerate(outputs) if out.requires_grad]
    rows: list[dict[str, list[Tensor]]] = [{part: [] for part in _PARTS} for _ in chosen]
    for place in _places(value):
        found = _tangents(func, inputs, at, place, 1, chosen)
        turned = _tangents(func, inputs, at, place, 1j, chosen) if value.is_complex() else None
        for number, moved in enumerate(found):
            for part, row in moved.items():
                if turned is not None:
                    row = mq.complex(row, turned[number][part])
                rows[number][part].append(row)
    return [
        {part: _stacked(row, 0, outputs[i].numel()) for part, row in parts.items()}
        for i, parts in zip(chosen, rows, strict=True)
    ]


def _tangents(
    func: Function,
    inputs: tuple[Any, ...],
    at: int,
    place: tuple[int, ...],
    step: complex,
    chosen: Sequence[int],
) -> list[dict[str, Tensor]]:
    """The parts of some outputs' tangents where one element moves, flat."""
    with dual_level():
        args = []
        for i, value in enumerate(inputs):
            if _is_checked(value):
                tangent = mq.zeros_like(value)
                if i == at:
                    tangent[place] = step
                value = make_dual(value.detach(), tangent)
            args.append(value)
        outputs = _results(func, args)
        return [_parts(*unpack_dual(outputs[i])) for i in chosen]


def _parts(primal: Tensor, moved: Tensor | None) -> dict[str, Tensor]:
    tangent = mq.zeros_like(primal) if moved is None else moved
    flat = tangent.detach().reshape(-1)
    if not primal.is_complex():
        return {"real": flat.clone()}
    return {part: getattr(flat, part).clone() for part in _PARTS}


_BATCHED = (
    "gradcheck or gradgradcheck failed while testing {}: vmap over {} does not give what a loop "
    "gives, or cannot run:\n{}"
)


def _check_batched(out: Tensor, inputs: list[Tensor]) -> None:
    """Gradients of several starts at once are those of one after another."""
    starts = [mq.randn_like(out) for _ in range(2)]
    options = {"retain_graph": True, "allow_unused": True}
    single = [grad(out, inputs, start, **options) for start in starts]
    try:
        batched = grad(out, inputs, mq.stack(starts), is_grads_batched=True, **options)
    except RuntimeError as error:
        raise GradcheckError(_BATCHED.format("batched gradient", "backward", error)) from error
    for found, *wanted in zip(batched, *single):
        if found is not None and not mq.allclose(found, mq.stack(wanted), 1e-3, 1e-5):
            words = f"{found}\n{wanted}"
            raise GradcheckError(_BATCHED.format("batched gradient", "backward", words))


def _check_batched_forward(
    func: Function, inputs: tuple[Any, ...], checked: list[tuple[int, Tensor]]
) -> None:
    """Tangents of several directions at once are those of one after another."""
    for at, value in checked:

        def moved(direction: Tensor, at: int = at) -> tuple[Tensor, ...]:
            with dual_level():
                args = list(inputs)
                args = [a.detach() if _is_checked(a) else a for a in args]
                args[at] = make_dual(args[at], direction)
                pairs = [unpack_dual(out) for out in _results(func, args)]
                return tuple(mq.zeros_like(p) if t is None else t for p, t in pairs)

        directions = [mq.randn_like(value) for _ in range(2)]
        single = [moved(direction) for direction in directions]
        try:
            batched = vmap(moved)(mq.stack(directions))
        except RuntimeError as error:
            words = _BATCHED.format("batched gradient", "forward mode", error)
            raise GradcheckError(words) from error
        for found, *wanted in zip(batched, *single):
            if not mq.allclose(found, mq.stack(wanted), 1e-3, 1e-5):
                raise GradcheckError(_BATCHED.format("batched gradient", "forward mode", found))


def _mismatch(
    out: Tensor,
    number: int,
    place: int,
    numerical: Tensor,
    analytical: Tensor,
    part: str,
    mode: str,
) -> str:
    words = "imaginary" if part == "imag" else "real"
    start = f"While considering the {words} part of complex outputs only, " * out.is_complex()
    how = "computed with forward mode " if mode else ""
    return (
        f"{start}Jacobian {how}mismatch for output {number} with respect to input {place},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


# The parts of a complex output are real functions, each checked by itself; with what backward
# starts from for it.
_PARTS = ("imag", "real")
_STARTS = {"real": 1, "imag": 1j}


def _analytical(
    out: Tensor, inputs: list[Tensor], part: str, check_dtypes: bool = False
) -> list[Tensor]:
    """The Jacobians (input, output), an element of the output at a time."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for place in _places(out):
        start = mq.zeros_like(out)
        start[place] = _STARTS[part]
        found = grad(out, inputs, start, retain_graph=True, allow_unused=True)
        for row, value, g in zip(rows, inputs, found, strict=True):
            if check_dtypes and g is not None and g.dtype != value.dtype:
                raise GradcheckError(
                    f"Gradient has dtype mismatch: {g.dtype} for an input of {value.dtype}"
                )
            flat = mq.zeros_like(value) if g is None else dense_of(g.detach())
            row.append(flat.reshape(-1))
    return [_stacked(row, 1, value.numel()) for row, value in zip(rows, inputs, strict=True)]


def _numerical(
    func: Function,
    inputs: tuple[Any, ...],
    value: Tensor,
    number: int,
    eps: float,
    part: str,
    outputs: Callable[..., list[Tensor]] = _outputs,
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
                out = outputs(func, inputs)[number].detach()
                ends.append((getattr(out, part) if out.is_complex() else out).reshape(-1).clone())
            memory[place] = held
            for aspect in ("shape", "dtype"):
                if getattr(ends[0], aspect) != getattr(ends[1], aspect):
                    raise AssertionError(
                        f"Expects `func` to return outputs with the same {aspect} when inputs are "
                        f"perturbed on index {place} by {eps}"
                    )
            return (ends[1] - ends[0]) / (2 * eps)

        row = slope(eps)
        rows.append(mq.complex(row, slope(eps * 1j)) if value.is_complex() else row)
    return _stacked(rows, 0, outputs(func, inputs)[number].numel())


def _stacked(rows: list[Tensor], dim: int, size: int) -> Tensor:
    if rows:
        return mq.stack(rows, dim)
    return mq.zeros((0, size) if dim == 0 else (size, 0))


def _places(t: Tensor) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in t.shape))


__getattr__ = forward(__name__)
