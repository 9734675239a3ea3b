"""`torch.autograd.functional`: Jacobians, Hessians and their products with vectors, by backward.

Forward products go by the trick of two backwards: the gradient is linear in the gradients it
starts from, so its derivative by them, times a vector, is the forward product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import enable_grad, grad
from maquette.tensor.tensor import Tensor
from maquette.transforms import jacfwd

Tensors = Tensor | tuple[Tensor, ...]
Function = Callable[..., Any]


def vjp(
    func: Function,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The results, and the gradients of the inputs for gradients v of the results."""
    with enable_grad():
        own, outputs, single_in, single_out = _run(func, inputs, create_graph)
        starts = _vectors(v, outputs, "v")
        found = _grads(outputs, own, starts, create_graph, strict)
    return (
        _shaped(outputs, single_out, create_graph),
        _shaped(found, single_in, create_graph),
    )


def jvp(
    func: Function,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The results, and how they change when the inputs move along v."""
    with enable_grad():
        own, outputs, _, single_out = _run(func, inputs, create_graph)
        vectors = _vectors(v, own, "v")
        starts = [mq.zeros_like(out).requires_grad_() for out in outputs]
        gradients = _grads(outputs, own, starts, True, strict)
        found = _grads(gradients, starts, vectors, create_graph, strict)
    return (
        _shaped(outputs, single_out, create_graph),
        _shaped(found, single_out, create_graph),
    )


def jacobian(
    func: Function,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Derivatives (*output, *input): a tensor, or tuples by outputs and by inputs.

    vectorize: all columns at once, which the strategy "forward-mode" needs; the other gives the
    same either way. Raises NotImplementedError for forward mode otherwise, or with create_graph.
    """
    if strategy == "forward-mode":
        return _forward(func, inputs, create_graph=create_graph, vectorize=vectorize)
    with enable_grad():
        own, outputs, single_in, single_out = _run(func, inputs, create_graph)
        blocks = [_rows(out, own, create_graph, strict) for out in outputs]
    shaped = [_shaped(block, single_in, create_graph) for block in blocks]
    return shaped[0] if single_out else tuple(shaped)


def _forward(func: Function, inputs: Tensors, *, create_graph: bool, vectorize: bool) -> Any:
    """The Jacobian by forward mode: a tuple by inputs for each output."""
    if create_graph:
        raise NotImplementedError(
            "torch.autograd.functional.jacobian: `create_graph=True` and `strategy='forward-mode'` "
            "are not supported together (yet): use strategy='reverse-mode'"
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`: pass that too"
        )
    single = isinstance(inputs, Tensor)
    given: tuple[Tensor, ...] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    found = jacfwd(func, tuple(range(len(given))))(*[t.detach() for t in given])
    outputs = [found] if found and isinstance(found[0], Tensor) else list(found)
    shaped = [block[0] if single else tuple(block) for block in outputs]
    return shaped[0] if outputs[0] is found else tuple(shaped)


def hessian(
    func: Function,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a scalar: `jacobian` of its gradients."""
    single = isinstance(inputs, Tensor)

    def gradients(*args: Tensor) -> Any:
        value = _scalar(func(*args))
        found = _grads([value], list(args), None, True, strict)
        return found[0] if single else tuple(found)

    return jacobian(
        gradients, inputs, create_graph, strict, vectorize, strategy=outer_jacobian_strategy
    )


def vhp(
    func: Function,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The scalar, and v times its Hessian."""
    with enable_grad():
        own, outputs, single_in, _ = _run(func, inputs, create_graph)
        value = _scalar(outputs[0])
        gradients = _grads([value], own, None, True, strict)
        found = _grads(gradients, own, _vectors(v, own, "v"), create_graph, strict)
    return _shaped([value], True, create_graph), _shaped(found, single_in, create_graph)


def hvp(
    func: Function,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The scalar, and its Hessian times v; a Hessian is symmetric, so it is `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)


def _run(
    func: Function, inputs: Tensors, create_graph: bool
) -> tuple[list[Tensor], list[Tensor], bool, bool]:
    """Inputs of their own place in the graph, results, and whether each was one tensor."""
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    own = [
        t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_()
        for t in given
    ]
    result = func(*own)
    single = isinstance(result, Tensor)
    return own, [result] if single else list(result), isinstance(inputs, Tensor), single


def _vectors(v: Tensors | None, like: Sequence[Tensor], name: str) -> list[Tensor]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector {name} can only be None if the input to the user-provided function "
                "is a single Tensor with a single element."
            )
        return [mq.ones_like(like[0])]
    given = [v] if isinstance(v, Tensor) else list(v)
    if [t.shape for t in given] != [t.shape for t in like]:
        raise RuntimeError(
            f"{name} has shapes {[tuple(t.shape) for t in given]}, expected "
            f"{[tuple(t.shape) for t in like]}"
        )
    return given


def _scalar(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise RuntimeError(
            "The function given must return a single Tensor with a single element, got "
            f"{value.meta if isinstance(value, Tensor) else type(value).__name__}"
        )
    return value.reshape(())


def _grads(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    starts: Sequence[Tensor] | None,
    create_graph: bool,
    strict: bool,
) -> list[Tensor]:
    """Gradients, zeros where a result does not depend on an input (strict: RuntimeError)."""
    places = [i for i, out in enumerate(outputs) if out.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if places:
        found = grad(
            [outputs[i] for i in places],
            list(inputs),
            None if starts is None else [starts[i] for i in places],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    if strict and any(g is None for g in found):
        raise RuntimeError("strict: a result of the function does not depend on an input")
    return [mq.zeros_like(i) if g is None else g for g, i in zip(found, inputs)]


def _rows(out: Tensor, inputs: list[Tensor], create_graph: bool, strict: bool) -> list[Tensor]:
    """Derivatives of one result by each input."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for element in out.reshape(-1).unbind(0):
        for row, g in zip(rows, _grads([element], inputs, None, create_graph, strict)):
            row.append(g)
    return [
        (mq.stack(row) if row else i.new_zeros((0, *i.shape))).view((*out.shape, *i.shape))
        for row, i in zip(rows, inputs)
    ]


def _shaped(found: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    kept = tuple(t if create_graph else t.detach() for t in found)
    return kept[0] if single else kept


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
