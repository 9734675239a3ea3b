"""`vmap`: a function of one example made a function of a batch of them.

What is here: inputs given their hidden dimension, outputs given it back, batches cut into chunks,
and every complaint about how `vmap` was called. How operators run under it is `batch.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.core import pytree
from maquette.core.pytree import TreeSpec, tree_flatten, tree_unflatten
from maquette.tensor.streams.generator import default_generator
from maquette.tensor.tensor import Tensor
from maquette.transforms.batch import VmapInterpreter
from maquette.transforms.explaining import function_name, note_place
from maquette.transforms.interpreter import RANDOMNESS, Interpreter, pop, push, pushed
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import BatchedTensor, batched, revived

Dims = Any
"""An int, None, or a tree of them that is a prefix of the inputs' or outputs' tree."""
Function = Callable[..., Any]


def vmap(
    func: Function,
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """A function that maps ``func`` over a dimension of its inputs, at the speed of one call.

    in_dims: which dimension of each input to map over, None for none, as a tree that the inputs'
    tree begins with; out_dims: where the dimension stands in each output. randomness: what random
    operators do, "error", "different" over the batch or the "same". chunk_size: how many members of
    the batch to compute at once; None for all.

    Raises ValueError for inputs, dims or outputs that do not fit, RuntimeError for what cannot be
    batched.

    >>> import maquette as mq
    >>> vmap(mq.dot)(mq.ones(2, 3), mq.ones(2, 3))
    tensor([3., 3.])
    """
    check_randomness_flag(randomness)
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    plain = chunk_size is None and in_dims.__class__ is int and out_dims.__class__ is int
    plain = plain and out_dims == 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if plain and not kwargs and args and _other is None:
            for a in args:
                if not isinstance(a, Tensor):
                    break
            else:
                return _of_tensors(func, in_dims, randomness, args)
        return vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)

    return named_after(func, wrapped)


_other: Function | None = None
"""What a program has put in the place of `vmap_impl`, by parts of its own."""


def replace_vmap_impl(impl: Function) -> None:
    """Let another function do what `vmap_impl` does, whoever calls `vmap`."""
    global _other
    _other = impl


def named_after(func: Function, wrapped: Function) -> Function:
    try:
        return functools.wraps(func)(wrapped)
    except AttributeError:
        return wrapped


def check_randomness_flag(randomness: str) -> None:
    """Refuse any other word than the three."""
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )


def vmap_impl(
    func: Function,
    in_dims: Dims,
    out_dims: Dims,
    randomness: str,
    chunk_size: int | None,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """`vmap` of a function, called with these arguments."""
    if _other is not None and chunk_size is None:
        return _other(func, in_dims, out_dims, randomness, *args, **kwargs)
    size, flat_dims, flat_args, spec = process_batched_inputs(in_dims, args, func)
    if chunk_size is not None:
        return _chunked(
            func, flat_dims, flat_args, spec, size, out_dims, randomness, chunk_size, kwargs
        )
    level = VmapInterpreter(size, randomness)
    return flat_vmap(func, level, flat_dims, flat_args, spec, out_dims, kwargs)


def _of_tensors(func: Function, dim: int, randomness: str, args: tuple[Tensor, ...]) -> Any:
    """The common case, without trees: tensors in, all mapped over one dimension."""
    size: int | None = None
    for t in args:
        shape = t.meta.shape
        if not -len(shape) <= dim < len(shape) or (size is not None and size != shape[dim]):
            process_batched_inputs(dim, args, func)  # which says what is wrong
        size = shape[dim]
    assert size is not None
    level = VmapInterpreter(size, randomness)
    below = push(level)
    try:
        inner = [
            batched(
                t if t.__class__ is Tensor else revived(t), dim % t.meta.ndim if dim else 0, level
            )
            for t in args
        ]
        result = func(*inner)
    except Exception as error:
        note_place(error, "vmap", func)
        raise
    finally:
        pop(level, below)
    if result.__class__ is BatchedTensor and result._bdim == 0 and result._interpreter is level:
        return result._value
    if isinstance(result, Tensor):
        return unhidden(result, 0, level)
    return unwrap_outputs(result, 0, level, func)


def flat_vmap(
    func: Function,
    level: VmapInterpreter,
    flat_dims: Sequence[int | None],
    flat_args: Sequence[Any],
    spec: TreeSpec,
    out_dims: Dims,
    kwargs: dict[str, Any],
) -> Any:
    """A function of a batch at a level, its arguments and their dimensions given leaf by leaf."""
    with pushed(level):
        inner = [
            a if d is None else batched(revived(a), d, level) for a, d in zip(flat_args, flat_dims)
        ]
        try:
            result = func(*cast(tuple[Any, ...], tree_unflatten(inner, spec)), **kwargs)
        except Exception as error:
            note_place(error, "vmap", func)
            raise
    return unwrap_outputs(result, out_dims, level, func)


# --- inputs -----------------------------------------------------------------------------------


def process_batched_inputs(
    in_dims: Dims, args: tuple[Any, ...], func: Function
) -> tuple[int, list[int | None], list[Any], TreeSpec]:
    """The batch size, the dimension of each leaf of the inputs, the leaves and their tree."""
    name = function_name(func)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
            "(potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the "
            f"structure of `inputs`. in_dims has structure {tree_flatten(in_dims)[1]} but inputs "
            f"has structure {spec}."
        )
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        dims[i] = _checked_in_dim(leaf, dim, in_dims, name)
    sizes = [cast(Tensor, t).shape[d] for t, d in zip(leaves, dims) if d is not None]
    if any(size != sizes[0] for size in sizes):
        raise ValueError(_sizes_differ(func, args, dims, leaves, sizes))
    return batch_size_of(dims, leaves), cast("list[int | None]", dims), leaves, spec


def _sizes_differ(
    func: Function,
    args: tuple[Any, ...],
    dims: Sequence[int | None],
    leaves: Sequence[Any],
    sizes: Sequence[int],
) -> str:
    """The message for inputs of several batch sizes: each by its name."""
    own = [name for i, a in enumerate(args) for name in _leaf_names(_parameter(func, i), a)]
    told = [
        f"{name} has size {leaf.shape[d]} in dimension {d}"
        for name, leaf, d in zip(own, leaves, dims)
        if d is not None
    ]
    return (
        f"vmap({function_name(func)}): Expected all tensors to have the same size in the mapped "
        f"dimension, got sizes {list(sizes)} for the mapped dimension: {', '.join(told)}"
    )


def _parameter(func: Function, i: int) -> str:
    """The name of a function's positional parameter, ``args[i]`` where it has none."""
    try:
        found = list(inspect.signature(func).parameters.values())[i]
    except (ValueError, TypeError, IndexError):
        return f"args[{i}]"
    return f"args[{i}]" if found.kind is found.VAR_POSITIONAL else found.name


def _leaf_names(name: str, tree: Any) -> list[str]:
    count = len(tree_flatten(tree)[0])
    return [name] if isinstance(tree, Tensor) else [f"{name} (leaf {i})" for i in range(count)]


def _checked_in_dim(leaf: Any, dim: Any, in_dims: Dims, name: str) -> int | None:
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim}"
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{where} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where} for an input but the input is of type {type(leaf)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    rank = leaf.meta.ndim
    if not -rank <= dim < rank:
        raise ValueError(
            f"{where} for some input, but that input is a Tensor of dimensionality {rank} so "
            f"expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return dim % rank


def batch_size_of(dims: Sequence[Any], leaves: Sequence[Any]) -> int:
    """The size of the mapped dimension of leaves; ValueError where they have none, or several."""
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ValueError(
            "vmap: Expected at least one Tensor to vmap over: one of the inputs must have an "
            "in_dim that is not None"
        )
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return cast(int, sizes[0])


def broadcast_to_and_flatten(dims: Dims, spec: TreeSpec) -> list[Any] | None:
    """A dimension for each leaf of a tree; None where ``dims`` is no beginning of it."""
    return pytree.broadcast_to_and_flatten(dims, spec, is_leaf=_is_none)


def _is_none(x: object) -> bool:
    return x is None


# --- outputs ----------------------------------------------------------------------------------


def unwrap_outputs(result: Any, out_dims: Dims, level: VmapInterpreter, func: Function) -> Any:
    """The outputs of a function, the hidden dimension put where ``out_dims`` says."""
    name = function_name(func)
    leaves, spec = tree_flatten(result)
    for leaf in leaves:
        if not isinstance(leaf, Tensor) and out_dims is not None:
            _check_tensors(leaves, out_dims, spec, name)
            break
    dims = out_dims_of(out_dims, leaves, spec, name)
    found = [
        leaf
        if not isinstance(leaf, Tensor) and d is None
        else unhidden(cast(Tensor, leaf), d, level, name)
        for leaf, d in zip(leaves, dims, strict=True)
    ]
    return tree_unflatten(found, spec)


def _check_tensors(leaves: Sequence[Any], out_dims: Dims, spec: TreeSpec, name: str) -> None:
    """Refuse outputs that are no tensors, unless their out_dim is None."""
    dims = broadcast_to_and_flatten(out_dims, spec) or [0] * len(leaves)
    for leaf, dim in zip(leaves, dims):
        if not isinstance(leaf, Tensor) and dim is not None:
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did "
                f"you mean to set out_dims= to None for output?"
            )


def out_dims_of(out_dims: Dims, leaves: Sequence[Any], spec: TreeSpec, name: str) -> list[Any]:
    if out_dims is None or out_dims.__class__ is int:
        return [out_dims] * len(leaves)
    if len(leaves) == 1 and isinstance(out_dims, tuple) and len(out_dims) == 1:
        if out_dims[0] is None or out_dims[0].__class__ is int:
            return [out_dims[0]]  # one output may have its dim in a tuple
    check_out_dims(out_dims, name)
    dims = broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with "
            f"the structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but "
            f"outputs has structure {spec}."
        )
    return dims


def check_out_dims(out_dims: Dims, name: str) -> None:
    """Refuse ``out_dims`` that hold anything but numbers and None."""
    flat = tree_flatten(out_dims, is_leaf=_is_none)[0]
    if not all(d is None or isinstance(d, int) for d in flat):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should "
            "appear."
        )


def unhidden(t: Tensor, dim: int | None, level: VmapInterpreter, name: str = "") -> Tensor:
    """An output with its dimension back; one that was never batched is repeated for the batch."""
    own = t.__class__ is BatchedTensor and t._interpreter is level
    if dim is None:
        if own:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return t
    if not own:
        return repeated(t, level.info.batch_size, dim)
    value, at = cast(BatchedTensor, t)._value, cast(BatchedTensor, t)._bdim
    if at == dim:
        return value
    return cast(Tensor, operators.movedim(value, at, dim))


def repeated(t: Tensor, size: int, dim: int) -> Tensor:
    """A view with ``t`` as often as ``size`` says, along a dimension more at ``dim``."""
    wide = t.expand(size, *t.shape)
    return cast(Tensor, wide if dim == 0 else operators.movedim(wide, 0, dim))


# --- chunks -----------------------------------------------------------------------------------


def _chunked(
    func: Function,
    flat_dims: Sequence[int | None],
    flat_args: Sequence[Any],
    spec: TreeSpec,
    size: int,
    out_dims: Dims,
    randomness: str,
    chunk_size: int,
    kwargs: dict[str, Any],
) -> Any:
    """The batch in pieces of ``chunk_size``, the last maybe smaller, and their outputs joined."""
    state = default_generator.get_state() if randomness == "same" else None
    results = []
    for start in range(0, size, chunk_size):
        stop = min(start + chunk_size, size)
        if state is not None:
            default_generator.set_state(state)  # the same draws in every chunk
        part = [
            a if d is None else a.narrow(d, start, stop - start)
            for a, d in zip(flat_args, flat_dims)
        ]
        results.append(
            flat_vmap(
                func,
                VmapInterpreter(stop - start, randomness),
                flat_dims,
                part,
                spec,
                out_dims,
                kwargs,
            )
        )
    if len(results) == 1:
        return results[0]
    leaves = [tree_flatten(r)[0] for r in results]
    result_spec = tree_flatten(results[0])[1]
    dims = out_dims_of(out_dims, leaves[0], result_spec, function_name(func))
    joined = [
        column[0] if d is None else operators.cat(list(column), d)
        for column, d in zip(zip(*leaves), dims)
    ]
    return tree_unflatten(joined, result_spec)


# --- by hand ----------------------------------------------------------------------------------


def unwrap_batched(args: Any, level: Interpreter) -> tuple[Any, Any]:
    """Arguments with the values of the batched tensors of a level, and their dimensions."""
    leaves, spec = tree_flatten(args)
    values: list[object] = []
    dims: list[int | None] = []
    for leaf in leaves:
        if leaf.__class__ is BatchedTensor and leaf._interpreter is level:
            values.append(leaf._value)
            dims.append(leaf._bdim)
        else:
            values.append(leaf)
            dims.append(None)
    return tree_unflatten(values, spec), tree_unflatten(dims, spec)


def wrap_batched(args: Any, dims: Any, level: Interpreter) -> Any:
    """The other way round: ``dims`` is a tree that the arguments' begins with."""
    leaves, spec = tree_flatten(args)
    flat = broadcast_to_and_flatten(dims, spec)
    if flat is None:
        raise ValueError(
            f"out_dims {dims} is not compatible with the structure of the outputs, {spec}"
        )
    made = [
        leaf
        if d is None or not isinstance(leaf, Tensor)
        else batched(leaf, d % leaf.meta.ndim, level)
        for leaf, d in zip(leaves, flat)
    ]
    return tree_unflatten(made, spec)


__all__ = ["unwrap_batched", "vmap", "vmap_impl", "wrap_batched"]
