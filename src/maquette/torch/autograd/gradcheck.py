"""`gradcheck` and `gradgradcheck`: what backward gives against small differences of the function.

A complex output is checked as two real functions, its parts. The gradient of a real function f of
x + iy is df/dx + i df/dy, which differences of both parts give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
)
from maquette.torch.autograd.gradcheck_modes import (
    Options,
    check_elements,
    check_flat,
    check_projections,
)
from maquette.torch.autograd.jacobians import is_checked, outputs_of, results_of
from maquette.torch.autograd.sparse_gradcheck import of_values
from maquette.torch.face.forwarding import forward
from maquette.transforms.forward_ad import dual_level, make_dual, unpack_dual

Function = Callable[..., Any]


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
    masked: bool | None = None,
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

    fast_mode: random projections are compared, not each element; that takes three runs where the
    slow mode takes one for each element.
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
    func, listed = of_values(func, given, masked=bool(masked))
    options = Options(
        eps, atol, rtol, nondet_tol, check_backward_ad, check_forward_ad, check_batched_grad,
        check_batched_forward_grad, check_grad_dtypes, fast_mode,
    )  # fmt: skip
    try:
        _check(func, listed, options)
        if check_backward_ad:
            tensors = [t for t in given if is_checked(t)]
            check_linear(outputs_of(whole, given), tensors)
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
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients, as functions of inputs and of the outputs' gradients.

    gen_non_contig_grad_outputs: those are not contiguous. check_fwd_over_rev: tangents of the
    gradients, check_rev_over_rev: gradients of them. The other options are as `gradcheck` has them.
    """
    if not check_fwd_over_rev and not check_rev_over_rev:
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    listed = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = outputs_of(func, listed)
    if grad_outputs is None:
        starts = [_random_start(out, gen_non_contig_grad_outputs) for out in outputs]
    else:
        given = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
        starts = [start.detach().requires_grad_(start.requires_grad) for start in given]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        own, their = args[: len(listed)], args[len(listed) :]
        # Forward mode gives dual numbers of leaves that do not require grad.
        own = tuple([a.requires_grad_() if is_checked(t) else a for a, t in zip(own, listed)])
        results = outputs_of(func, own)
        checked = [arg for arg in own if is_checked(arg)]
        found = grad(results, checked, their, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*listed, *starts),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


def _random_start(out: Tensor, scattered: bool) -> Tensor:
    start = mq.randn_like(out)
    if scattered:
        start = mq.stack([start, start], -1)[..., 0]
    return start.detach().requires_grad_()


def _check(func: Function, inputs: tuple[Any, ...], options: Options) -> None:
    """All but the conventions: numbers, their dtypes, batches."""
    checked = [(i, value) for i, value in enumerate(inputs) if is_checked(value)]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    outputs = outputs_of(func, inputs)
    if not outputs:
        check_flat(func, inputs, checked, options)
    check_numbers = check_projections if options.fast_mode else check_elements
    check_numbers(func, inputs, checked, outputs, options)
    if options.check_batched_grad:
        for out in outputs:
            _check_batched(out, [value for _, value in checked])
    if options.check_batched_forward_grad:
        _check_batched_forward(func, inputs, checked)


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
                args = [a.detach() if is_checked(a) else a for a in args]
                args[at] = make_dual(args[at], direction)
                pairs = [unpack_dual(out) for out in results_of(func, args)]
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


__getattr__ = forward(__name__)
