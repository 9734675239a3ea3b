"""`torch.autograd.functional`: Jacobians, Hessians and their products with vectors, by backward.

Forward products go by the trick of two backwards: the gradient is linear in the gradients it
starts from, so its derivative by them, times a vector, is the forward product. With ``strict`` a
result that does not depend on an input is RuntimeError; else its derivative is zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import enable_grad, grad
from maquette.dispatch.torch_function import DisableTorchFunctionSubclass
from maquette.tensor.tensor import Tensor
from maquette.torch.autograd.functional_tuples import (  # noqa: F401  # programs look here
    _as_tuple,
    _grad_postprocess,
    _grad_preprocess,
    _tuple_postprocess,
)
from maquette.transforms import grad as transformed_grad
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
        own, outputs, single_in, single_out = _run(func, inputs, create_graph, strict, "vjp")
        why = "the user-provided function returns"
        starts = _vectors(v, outputs, single_out, "vjp", why)
        found = _filled(_grads(outputs, own, starts, create_graph), own, strict, create_graph)
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
        own, outputs, single_in, single_out = _run(func, inputs, create_graph, strict, "jvp")
        vectors = _vectors(v, own, single_in, "jvp", _OF_INPUT)
        starts = [mq.zeros_like(out, requires_grad=True) for out in outputs]
        gradients = _filled(_grads(outputs, own, starts, True), own, strict, False)
        found = _filled(
            _grads(gradients, starts, vectors, create_graph), outputs, strict, create_graph
        )
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

    vectorize: all rows, or columns, at once under `vmap`, which the strategy "forward-mode" needs.
    Raises NotImplementedError for forward mode otherwise, or with create_graph.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode", got '
            f"{strategy!r}. The first costs a pass for each input element, the second for each "
            "output element"
        )
    if strict and strategy == "forward-mode":
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are '
            "not supported together (yet). Please either set `strict=False` or "
            '`strategy="reverse-mode"`.'
        )
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )
    if strategy == "forward-mode":
        return _forward(func, inputs, create_graph=create_graph, vectorize=vectorize)
    with enable_grad():
        own, outputs, single_in, single_out = _run(func, inputs, create_graph, strict, "jacobian")
        if vectorize:
            blocks = [_rows_at_once(out, own, create_graph) for out in outputs]
        else:
            blocks = [_rows(i, out, own, create_graph, strict) for i, out in enumerate(outputs)]
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
    given, single = _tensors(inputs, "inputs", "jacobian")
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
    given, single = _tensors(inputs, "inputs", "hessian")

    def scalar(*args: Tensor) -> Tensor:
        return _scalar(func(*args), "hessian", strict)

    def gradients(*args: Tensor) -> Any:
        found = jacobian(scalar, args, create_graph=True)
        _check_dependent(found, strict)
        return found[0] if single else found

    if outer_jacobian_strategy == "forward-mode":
        gradients = transformed_grad(scalar, 0 if single else tuple(range(len(given))))
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
    return _vhp(func, inputs, v, create_graph, strict, "vhp")


def hvp(
    func: Function,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The scalar, and its Hessian times v; a Hessian is symmetric, so it is `vhp`."""
    return _vhp(func, inputs, v, create_graph, strict, "hvp")


def _vhp(
    func: Function, inputs: Tensors, v: Tensors | None, create_graph: bool, strict: bool, name: str
) -> tuple[Any, Any]:
    with enable_grad():
        given, single_in = _tensors(inputs, "inputs", name)
        own = _own(given, create_graph)
        vectors = _vectors(v, own, single_in, name, _OF_INPUT)
        result = func(*own)
        value = _scalar(result, name, strict)
        gradients = _filled(_grads([value], own, None, True), own, strict, False)
        _check_dependent(gradients, strict)
        found = _filled(
            _grads(gradients, own, vectors, create_graph),
            own,
            strict,
            create_graph,
            _OF_JACOBIAN,
            "hessian",
        )
    return (
        _shaped([result], True, create_graph),
        _shaped(found, single_in, create_graph),
    )


# --- arguments and results -------------------------------------------------------------------

_OF_INPUT = "the input to the user-provided function is"
_OF_OUTPUT = "The output of the user-provided function"
_OF_JACOBIAN = "The jacobian of the user-provided function"


def _tensors(given: Any, what: str, name: str) -> tuple[list[Tensor], bool]:
    """A tensor or a tuple of tensors as a list, and whether it was one tensor."""
    is_tuple, parts = _as_tuple(given, what, name)
    return list(parts), not is_tuple


def _own(given: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    """The inputs at a place of their own in the graph."""
    return [
        t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_()
        for t in given
    ]


def _run(
    func: Function, inputs: Tensors, create_graph: bool, strict: bool, name: str
) -> tuple[list[Tensor], list[Tensor], bool, bool]:
    """Inputs of their own place in the graph, results, and whether each was one tensor."""
    given, single_in = _tensors(inputs, "inputs", name)
    own = _own(given, create_graph)
    outputs, single_out = _results(func(*own), name, strict)
    return own, outputs, single_in, single_out


def _results(result: Any, name: str, strict: bool) -> tuple[list[Tensor], bool]:
    outputs, single = _tensors(result, "outputs of the user-provided function", name)
    for i, out in enumerate(outputs):
        if strict and not out.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs "
                f"must be computed in a differentiable manner from the input when running in "
                f"strict mode."
            )
    return outputs, single


def _scalar(result: Any, name: str, strict: bool) -> Tensor:
    outputs, single = _results(result, name, strict)
    if not single:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, "
            f"got {outputs[0].meta}"
        )
    return outputs[0].squeeze()


def _vectors(
    v: Tensors | None, like: Sequence[Tensor], single: bool, name: str, why: str
) -> list[Tensor]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {why} a single Tensor with a single element."
            )
        return [mq.ones_like(like[0])]
    given, _ = _tensors(v, "v", name)
    if len(given) != len(like):
        if single:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}."
        )
    for i, (t, other) in enumerate(zip(given, like)):
        if t.shape != other.shape:
            entry = "" if single else f"Entry {i} in "
            raise RuntimeError(
                f"{entry}v has invalid size: should be {other.shape} but got {t.shape}."
            )
    return given


def _shaped(found: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    kept = tuple(t if create_graph else t.detach() for t in found)
    return kept[0] if single else kept


# --- gradients -------------------------------------------------------------------------------


def _grads(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    starts: Sequence[Tensor] | None,
    create_graph: bool,
) -> Sequence[Tensor | None]:
    """Gradients; None where a result does not depend on an input."""
    places = [i for i, out in enumerate(outputs) if out.requires_grad]
    if not places:
        return [None] * len(inputs)
    return grad(
        [outputs[i] for i in places],
        list(inputs),
        None if starts is None else [starts[i] for i in places],
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
    )


def _filled(
    found: Sequence[Tensor | None],
    like: Sequence[Tensor],
    strict: bool,
    create_graph: bool,
    what: str = _OF_OUTPUT,
    order: str = "jacobian",
) -> list[Tensor]:
    """Zeros in the place of missing gradients; in strict mode an error.

    what: of which the gradients are; order: what they are themselves.
    """
    for i, g in enumerate(found if strict else ()):
        if g is None:
            raise RuntimeError(
                f"{what} is independent of input {i}. This is not allowed in strict mode."
            )
        if create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The {order} of the user-provided function is independent of input {i}. This is "
                f"not allowed in strict mode when create_graph=True."
            )
    return [mq.zeros_like(t) if g is None else g for g, t in zip(found, like)]


def _check_dependent(gradients: Sequence[Tensor], strict: bool) -> None:
    for i, g in enumerate(gradients):
        if strict and not g.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function with respect to input {i} is "
                f"independent of the input. This is not allowed in strict mode."
            )


def _rows(
    number: int, out: Tensor, inputs: list[Tensor], create_graph: bool, strict: bool
) -> list[Tensor]:
    """Derivatives of one result by each input."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    what = f"Output {number} of the user-provided function"
    for element in out.reshape(-1).unbind(0):
        found = _grads([element], inputs, None, create_graph)
        for row, g in zip(rows, _filled(found, inputs, strict, create_graph, what)):
            row.append(g)
    return [
        (mq.stack(row) if row else i.new_zeros((0, *i.shape))).view((*out.shape, *i.shape))
        for row, i in zip(rows, inputs)
    ]


def _rows_at_once(out: Tensor, inputs: list[Tensor], create_graph: bool) -> list[Tensor]:
    """Derivatives of one result by each input, all its elements in one backward pass."""
    shapes = [(*out.shape, *i.shape) for i in inputs]
    if not out.requires_grad or not out.numel():
        return [i.new_zeros(shape) for i, shape in zip(inputs, shapes)]
    basis = mq.eye(out.numel(), dtype=out.dtype, device=out.device).view(-1, *out.shape)
    # What comes out of the batch is what the operators gave, of no class of the inputs' choice.
    with DisableTorchFunctionSubclass():
        found = grad(
            [out],
            list(inputs),
            [basis],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )
    return [
        i.new_zeros(shape) if g is None else g.reshape(shape)
        for i, g, shape in zip(inputs, found, shapes)
    ]


def _construct_standard_basis_for(
    tensors: Sequence[Tensor], tensor_numels: Sequence[int]
) -> tuple[Tensor, ...]:
    """The unit vectors of the space of all elements, cut into columns a tensor."""
    total = sum(tensor_numels)
    chunks = tuple(t.new_zeros(total, n) for t, n in zip(tensors, tensor_numels))
    start = 0
    for chunk, n in zip(chunks, tensor_numels):
        chunk.diagonal(start).fill_(1)
        start -= n
    return chunks


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
