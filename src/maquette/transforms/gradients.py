"""`grad`, `grad_and_value`, `vjp` and `jacrev`: derivatives by going backward.

A function is run at a level of its own, which records it (`reverse_level.py`). The backward pass
runs after that level is over: what it saved then stands for its values, so the pass is made of
calls at the level outside, which may batch it or differentiate it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.autograd.engine import run_backward
from maquette.autograd.node import Edge, grad_edge
from maquette.core.layout import preserve_format
from maquette.core.pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import OverridingSwitch
from maquette.tensor.tensor import Tensor
from maquette.transforms.explaining import note_place
from maquette.transforms.interpreter import Interpreter, pop, push, pushed
from maquette.transforms.replayed import gradients_of_one
from maquette.transforms.reverse_level import GradInterpreter, require_grad
from maquette.transforms.rules import operators
from maquette.transforms.vmap import vmap
from maquette.transforms.wrappers import GradTrackingTensor, Wrapper, revived, tracked

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that computes the gradient of ``func``, whose result is one number.

    argnums: by which positional arguments; has_aux: ``func`` gives ``(output, aux)``, and the
    result is ``(gradients, aux)``. Gradients have the structure of the arguments. Raises
    RuntimeError where the output is no scalar tensor.

    >>> import maquette as mq
    >>> grad(lambda x: x.sin())(mq.zeros(()))
    tensor(1.)
    """

    plain = argnums == 0 and not has_aux

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if plain and len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
            return _of_one_tensor(func, args[0])[0]
        found = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (found[0], found[1][1]) if has_aux else found[0]

    return named_after(func, wrapped)


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """As `grad`, but the result is ``(gradients, output)``, or ``(gradients, (output, aux))``."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)

    return named_after(func, wrapped)


def named_after(func: Function, wrapped: Function) -> Function:
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        value = getattr(func, name, None)
        if value is not None:
            setattr(wrapped, name, value)
    wrapped.__wrapped__ = func  # type: ignore[attr-defined]  # as functools.wraps does
    return wrapped


def _grad_and_value(
    func: Function,
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if argnums == 0 and len(args) == 1 and not (has_aux or kwargs) and isinstance(args[0], Tensor):
        return _of_one_tensor(func, args[0])
    level = GradInterpreter()
    with pushed(level):
        chosen = chosen_arguments(args, argnums)
        leaves, spec = differentiable(chosen, level)
        inner = _inner(args, argnums, tree_unflatten(leaves, spec), level)
        try:
            output = func(*inner, **{k: _at(v, level) for k, v in kwargs.items()})
        except Exception as error:
            note_place(error, "grad", func)
            raise
        aux = None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(
                    "grad_and_value(f)(*args): output of function f should be a tuple: (output, "
                    "aux) if has_aux is True"
                )
            output, aux = output
        _check_scalar(output, level)
        edge = grad_edge(output) if _of(output, level) else None
    value = lowered(output, level)
    found = gradients_of_one(edge, value, leaves, level) if edge else None
    if found is None:
        found = _pulled([edge], [_ones(value) if edge else None], leaves, level)
    gradients = tree_unflatten(found, spec)
    if has_aux:
        return gradients, (value, lowered_aux(aux, level))
    return gradients, value


def _of_one_tensor(func: Function, x: Tensor) -> tuple[Tensor, Tensor]:
    """The common case, without trees: a function of one tensor."""
    level = GradInterpreter()
    below = push(level)
    try:
        leaf = _leaf(x, level)
        output = func(leaf)
        if (
            output.__class__ is not GradTrackingTensor
            or output.meta.ndim
            or output.meta.dtype.is_complex
        ):
            _check_scalar(output, level)
        edge = grad_edge(output) if _of(output, level) else None
    except Exception as error:
        note_place(error, "grad", func)
        raise
    finally:
        pop(level, below)
    value = lowered(output, level)
    if edge is None:
        return operators.zeros_like(lowered(leaf, level)), value
    leaves = [leaf]
    found = gradients_of_one(edge, value, leaves, level)
    return (found or _pulled([edge], [_ones(value)], leaves, level))[0], value


def _ones(value: Tensor) -> Tensor:
    switch = OverridingSwitch()
    switch.off()  # a part of the one call that PyTorch makes here
    try:
        ones = operators.ones_like.default(value, pin_memory=False, memory_format=preserve_format)
    finally:
        switch.on()
    return cast(Tensor, ones)


def _check_scalar(output: Any, level: Interpreter) -> None:
    where = "grad_and_value(f)(*args): Expected f(*args) to return a"
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{where} Tensor, got {type(output)}")
    if output.meta.ndim:
        raise RuntimeError(
            f"{where} scalar Tensor, got tensor with {output.meta.ndim} dims. Maybe you wanted to "
            "use the vjp or jacrev APIs instead?"
        )
    if output.meta.dtype.is_complex and _of(output, level) and output.requires_grad:
        raise RuntimeError(
            "grad can be implicitly created only for real scalar outputs but got "
            f"{output.meta.dtype}: of which part is the gradient? Take .real, .imag or .abs() of it"
        )


# --- arguments --------------------------------------------------------------------------------


def chosen_arguments(args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The arguments to differentiate by; RuntimeError for ``argnums`` that do not fit."""
    if isinstance(argnums, int):
        return args[_checked(argnums, len(args))]
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    for n in argnums:
        if not isinstance(n, int):
            raise RuntimeError(f"argnums elements must be int, got {type(n)}")
    wrapped = [_checked(n, len(args)) for n in argnums]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple([args[n] for n in wrapped])


def _checked(argnum: int, count: int) -> int:
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def replaced(args: Sequence[Any], argnums: Argnums, chosen: Any) -> list[Any]:
    """The arguments with the chosen ones exchanged."""
    made = list(args)
    if isinstance(argnums, int):
        made[argnums] = chosen
    else:
        for n, value in zip(argnums, chosen):
            made[n] = value
    return made


def _inner(args: tuple[Any, ...], argnums: Argnums, chosen: Any, level: Interpreter) -> list[Any]:
    """The arguments at a level, the chosen ones exchanged."""
    if argnums == 0 and len(args) == 1:
        return [chosen]
    return replaced([_at(a, level) for a in args], argnums, chosen)


def differentiable(tree: Any, level: Interpreter) -> tuple[list[Tensor], TreeSpec]:
    """The tensors of a tree as leaves of a level that require grad there."""
    leaves, spec = tree_flatten(tree)
    return [_leaf(t, level) for t in leaves], spec


def _leaf(t: Any, level: Interpreter) -> Tensor:
    """A tensor as a leaf of a level that requires grad there."""
    if not isinstance(t, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(t)}")
    kind = t.meta.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(
            f"only Tensors of floating point dtype can require gradients; this is {kind}"
        )
    return require_grad(tracked(revived(t), level))


def _at(tree: Any, level: Interpreter) -> Any:
    """An argument at a level: its tensors tracked there."""
    if isinstance(tree, Tensor):
        return tracked(revived(tree), level)
    if tree is None or tree.__class__ in _PLAIN:
        return tree
    return tree_map(lambda t: tracked(revived(t), level) if isinstance(t, Tensor) else t, tree)


_PLAIN = (int, float, bool, str)


def _of(t: object, level: Interpreter) -> bool:
    return isinstance(t, Wrapper) and t._interpreter is level


def lowered(t: Any, level: Interpreter) -> Any:
    """A result on the level below: the value of a wrapper, anything else itself."""
    return t._value if isinstance(t, Wrapper) and t._interpreter is level else t


def lowered_aux(aux: Any, level: Interpreter) -> Any:
    """What a function gives beside its output, on the level below; RuntimeError but for tensors."""
    leaves, spec = tree_flatten(aux)
    for t in leaves:
        if not isinstance(t, Tensor):
            raise RuntimeError(
                f"Expected tensors, got unsupported type {type(t)} in aux: return tensors only, or "
                "keep other values outside of the function"
            )
    return tree_unflatten([lowered(t, level) for t in leaves], spec)


# --- backward ---------------------------------------------------------------------------------


def _pulled(
    edges: Sequence[Edge | None],
    starts: Sequence[Tensor | None],
    leaves: Sequence[Tensor],
    level: Interpreter,
    *,
    retain_graph: bool = False,
) -> list[Tensor]:
    """Gradients of leaves of a level that is over; zeros where nothing depends on them.

    The leaves of a level are its own, so the engine may give them their gradients as ever: it need
    not look for the way to them, and nobody minds that a gradient with a history is shared.
    """
    given = [(e, s) for e, s in zip(edges, starts) if e is not None]
    for leaf in leaves:
        leaf._autograd().grad = None
    if given:
        run_backward(
            [e for e, _ in given],
            [s for _, s in given],
            retain_graph=retain_graph,
            create_graph=tls.st.grad_enabled,
            own_leaves=True,
        )
    return [_taken(leaf, level) for leaf in leaves]


def _taken(leaf: Tensor, level: Interpreter) -> Tensor:
    """The gradient that a leaf was given, or zeros."""
    state = leaf._autograd()
    gradient, state.grad = state.grad, None
    if gradient is None:
        return cast(Tensor, operators.zeros_like(lowered(leaf, level)))
    return gradient


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The output of ``func``, and the function from cotangents of it to those of the primals.

    The latter gives a tuple, one member for each primal, and may be called several times. has_aux:
    ``func`` gives ``(output, aux)``, and the result is ``(output, function, aux)``.
    """
    return _vjp_with_argnums(func, *primals, has_aux=has_aux)


def _vjp_with_argnums(
    func: Function, *primals: Any, argnums: Argnums | None = None, has_aux: bool = False
) -> Any:
    level = GradInterpreter()
    with pushed(level):
        chosen = primals if argnums is None else chosen_arguments(primals, argnums)
        leaves, spec = differentiable(chosen, level)
        given = tree_unflatten(leaves, spec)
        inner = (
            given if argnums is None else replaced([_at(p, level) for p in primals], argnums, given)
        )
        try:
            output = func(*cast(tuple[Any, ...], inner))
        except Exception as error:
            note_place(error, "vjp", func)
            raise
        aux = None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(
                    "vjp(f, *primals): output of function f should be a tuple: (output, aux) if "
                    "has_aux is True"
                )
            output, aux = output
        outputs, out_spec = checked_outputs(output, "vjp(f, *primals)")
        _check_floating(outputs)
        edges = [grad_edge(t) if _of(t, level) else None for t in outputs]
    values = [lowered(t, level) for t in outputs]
    pull = _pullback(level, edges, leaves, values, out_spec, spec)
    result = tree_unflatten(values, out_spec)
    if has_aux:
        return result, pull, lowered_aux(aux, level)
    return result, pull


def _pullback(
    level: Interpreter,
    edges: Sequence[Edge | None],
    leaves: Sequence[Tensor],
    values: Sequence[Tensor],
    out_spec: TreeSpec,
    spec: TreeSpec,
) -> Function:
    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        leaves_given, given = tree_flatten(cotangents)
        flat = cast(list[Tensor], leaves_given)
        if given != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {given}, primal output: {out_spec}"
            )
        for i, (start, value) in enumerate(zip(flat, values)):
            if start.meta.shape != value.meta.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {start.shape} and "
                    f"output[{i}] has a shape of {value.shape}."
                )
            if start.meta.dtype is not value.meta.dtype:
                flat[i] = start.to(value.meta.dtype)
        found = _pulled(edges, flat, leaves, level, retain_graph=retain_graph)
        return tree_unflatten(found, spec)

    return pull


def checked_outputs(output: Any, api: str) -> tuple[list[Tensor], TreeSpec]:
    """The tensors of an output; RuntimeError for anything else."""
    leaves, spec = tree_flatten(output)
    if not leaves or leaves == [None]:
        raise RuntimeError(
            f"{api}: Expected f to be a function that has non-empty output (got output = {output})"
        )
    for t in leaves:
        if not isinstance(t, Tensor):
            raise RuntimeError(
                f"{api}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(t)}"
            )
    return cast(list[Tensor], leaves), spec


def _check_floating(outputs: Sequence[Tensor]) -> None:
    for t in outputs:
        if not (t.meta.dtype.is_floating_point or t.meta.dtype.is_complex):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {t.meta.dtype}; give others back as aux (has_aux=True)"
            )


# --- Jacobians --------------------------------------------------------------------------------


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that computes the Jacobian of ``func``, one backward pass for all rows at once.

    Each tensor of the output gives, for each tensor of the chosen arguments, one of shape
    ``(*output, *input)``. chunk_size: how many rows to compute at once; 1 makes a loop, without
    vmap. has_aux as for `grad`.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def wrapped(*args: Any) -> Any:
        found = _vjp_with_argnums(func, *args, argnums=argnums, has_aux=has_aux)
        output, pull = found[:2]
        outputs, out_spec = checked_outputs(output, "jacrev(f, *args)")
        flat_inputs, in_spec = tree_flatten(chosen_arguments(args, argnums))
        inputs = cast(list[Tensor], flat_inputs)
        refuse_complex("jacrev", inputs, "input")
        refuse_complex("jacrev", outputs, "output")
        blocks = _blocks(pull, outputs, out_spec, len(inputs), chunk_size)
        shaped = [
            tree_unflatten(
                [block.reshape((*out.shape, *i.shape)) for block, i in zip(blocks[k], inputs)],
                in_spec,
            )
            for k, out in enumerate(outputs)
        ]
        jacobian = tree_unflatten(shaped, out_spec)
        return (jacobian, found[2]) if has_aux else jacobian

    return named_after(func, wrapped)


def refuse_complex(api: str, tensors: Sequence[Tensor], what: str) -> None:
    """Refuse complex tensors, of which a Jacobian would have to be two."""
    for i, t in enumerate(tensors):
        if t.is_complex():
            raise RuntimeError(
                f"{api}: Expected all {what}s to be real but received complex tensor at flattened "
                f"{what} idx: {i}"
            )


def _blocks(
    pull: Function,
    outputs: Sequence[Tensor],
    out_spec: TreeSpec,
    inputs: int,
    chunk_size: int | None,
) -> list[list[Tensor]]:
    """For each output and each input, the gradients of all elements of the output."""
    total = sum(out.numel() for out in outputs)

    def rows(*basis: Tensor) -> Any:
        starts = [b.reshape(out.shape) for b, out in zip(basis, outputs)]
        return tree_flatten(pull(tree_unflatten(starts, out_spec)))[0]

    step = total if chunk_size is None else chunk_size
    found: list[list[Tensor]] = []
    for start in range(0, total, step or 1):
        basis = standard_basis(outputs, start, min(step, total - start))
        if chunk_size == 1:
            rows_found = [g.unsqueeze(0) for g in rows(*[b.squeeze(0) for b in basis])]
        else:
            rows_found = vmap(rows)(*basis)
        found.append(rows_found)
    if not found:
        empty = [rows(*[out.new_zeros((out.numel(),)) for out in outputs])]
        return [[g.new_zeros((0, *g.shape)) for g in empty[0]] for _ in outputs]
    whole = [operators.cat(list(c), 0) if len(c) > 1 else c[0] for c in zip(*found)]
    sizes = [out.numel() for out in outputs]
    split = [w.split(sizes, 0) for w in whole]
    return [[split[i][k] for i in range(inputs)] for k in range(len(outputs))]


def gradients_of_rows(row: Callable[..., object], starts: Sequence[Tensor]) -> list[Tensor | None]:
    """For `autograd.grad` with batched gradients: all rows under `vmap`; None stays None."""
    missing: list[bool] = []

    def present(*start: Tensor) -> tuple[Tensor, ...]:
        found = cast(Sequence["Tensor | None"], row(*start))
        missing[:] = [g is None for g in found]
        return tuple([g for g in found if g is not None])

    found = iter(vmap(present)(*starts))
    return [None if none else next(found) for none in missing]


def standard_basis(outputs: Sequence[Tensor], start: int, count: int) -> list[Tensor]:
    """Rows ``start`` to ``start + count`` of the unit matrix over all elements, split by tensor."""
    made = []
    offset = 0
    for out in outputs:
        size = out.numel()
        block = out.new_zeros((count, size))
        block.diagonal(start - offset).fill_(1)
        made.append(block)
        offset += size
    return made


__all__ = ["grad", "grad_and_value", "jacrev", "standard_basis", "vjp", "GradTrackingTensor"]
