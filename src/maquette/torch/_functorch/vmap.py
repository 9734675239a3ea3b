"""`torch._functorch.vmap`: `vmap` with its pieces, which name a level by its number.

Libraries that let their own containers pass through `vmap` put theirs in the place of some of these
functions, or call them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, cast

from maquette.core.pytree import TreeSpec, tree_unflatten
from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward, without_underscores
from maquette.transforms import inspection
from maquette.transforms.batch import VmapInterpreter
from maquette.transforms.explaining import function_name
from maquette.transforms.inspection import (
    add_batch_dim as _add_batch_dim,
)
from maquette.transforms.inspection import (
    is_batchedtensor,
)
from maquette.transforms.inspection import (
    remove_batch_dim as _remove_batch_dim,
)
from maquette.transforms.inspection import (
    vmap_decrement_nesting as _vmap_decrement_nesting,
)
from maquette.transforms.inspection import (
    vmap_increment_nesting as _vmap_increment_nesting,
)
from maquette.transforms.vmap import (
    Dims,
    Function,
    batch_size_of,
    broadcast_to_and_flatten,
    check_out_dims,
    replace_vmap_impl,
    unhidden,
    unwrap_outputs,
    vmap_impl,
)
from maquette.transforms.vmap import (
    check_randomness_flag as _check_randomness_arg,
)
from maquette.transforms.vmap import (
    process_batched_inputs as _process_batched_inputs,
)
from maquette.transforms.vmap import (
    unwrap_batched as _unwrap,
)
from maquette.transforms.vmap import (
    wrap_batched as _wrap,
)

in_dims_t = int | tuple[object, ...]
out_dims_t = int | tuple[int, ...]


def lazy_load_decompositions() -> None:
    """Nothing: rules are read when they are first asked for."""


def doesnt_support_saved_tensors_hooks(f: Function) -> Function:
    """The function itself: transforms here go with hooks on saved tensors."""
    return f


@contextlib.contextmanager
def vmap_increment_nesting(batch_size: int, randomness: str) -> Iterator[int]:
    """For a block: a level of vmap; its number."""
    number = _vmap_increment_nesting(batch_size, randomness)
    try:
        yield number
    finally:
        _vmap_decrement_nesting()


def wrap_batched(args: tuple[Any, ...], bdims: Dims, level: int) -> Any:
    """Arguments with the dimensions ``bdims`` hidden at a level."""
    return _wrap(args, bdims, inspection.level_of(level))


def unwrap_batched(args: Any, level: int) -> tuple[Any, Any]:
    """Arguments with the values of the batched tensors of a level, and their dimensions."""
    return _unwrap(args, inspection.level_of(level))


def restore_vmap(
    func: Function, in_dims: Dims, batch_size: int, randomness: str
) -> Callable[..., tuple[Any, Any]]:
    """A function that gives the outputs of ``func`` under vmap as they are, and their dimensions.

    There need be no batched input, since the size of the batch is given.
    """

    def inner(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with vmap_increment_nesting(batch_size, randomness) as level:
            return unwrap_batched(func(*wrap_batched(args, in_dims, level), **kwargs), level)

    return inner


# --- inputs -----------------------------------------------------------------------------------


def _get_name(func: Function) -> str:
    return function_name(func)


def _validate_and_get_batch_size(
    flat_in_dims: Sequence[int | None], flat_args: Sequence[Any]
) -> int:
    return batch_size_of(flat_in_dims, flat_args)


def _create_batched_inputs(
    flat_in_dims: Sequence[int | None], flat_args: Sequence[Any], vmap_level: int, args_spec: Any
) -> Any:
    inner = [
        a if d is None else _add_batch_dim(a, d, vmap_level)
        for a, d in zip(flat_args, flat_in_dims)
    ]
    return tree_unflatten(inner, args_spec)


def get_chunk_sizes(total_elems: int, chunk_size: int) -> list[int]:
    """The sizes of the chunks of a number of elements, the last maybe smaller."""
    return [min(chunk_size, total_elems - i) for i in range(0, total_elems, chunk_size)]


# --- outputs ----------------------------------------------------------------------------------


def _num_outputs(batched_outputs: Tensor | tuple[Tensor, ...]) -> int:
    return len(batched_outputs) if isinstance(batched_outputs, tuple) else 1


def _as_tuple(value: Any, num_elements: int, error_message_lambda: Callable[[], str]) -> Any:
    given = value if isinstance(value, tuple) else (value,) * num_elements
    if len(given) != num_elements:
        raise ValueError(error_message_lambda())
    return given


def _check_int_or_none(x: Any, func: Function, out_dims: Dims) -> None:
    _check_out_dims_is_int_or_int_pytree(x, func)


def _check_out_dims_is_int_or_int_pytree(out_dims: Dims, func: Function) -> None:
    check_out_dims(out_dims, function_name(func))


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    if out_dim is None and not is_batchedtensor(batched_output):
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return unhidden(batched_output, out_dim, _level(vmap_level), name)


def _level(number: int) -> VmapInterpreter:
    return cast(VmapInterpreter, inspection.level_of(number))


def _unwrap_batched(
    batched_outputs: Any, out_dims: Dims, vmap_level: int, batch_size: int, func: Function
) -> Any:
    return unwrap_outputs(batched_outputs, out_dims, _level(vmap_level), func)


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any] | None:
    return broadcast_to_and_flatten(tree, treespec)


def _flat_vmap(
    func: Function,
    batch_size: int,
    flat_in_dims: Sequence[int | None],
    flat_args: Sequence[Any],
    args_spec: Any,
    out_dims: Dims,
    randomness: str,
    **kwargs: Any,
) -> Any:
    with vmap_increment_nesting(batch_size, randomness) as level:
        inputs = _create_batched_inputs(flat_in_dims, flat_args, level, args_spec)
        return _unwrap_batched(func(*inputs, **kwargs), out_dims, level, batch_size, func)


def _vmap_by_pieces(
    func: Function, in_dims: Dims, out_dims: Dims, randomness: str, /, *args: Any, **kwargs: Any
) -> Any:
    """`vmap` by the functions that stand in this module now."""
    size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
    return _flat_vmap(func, size, dims, flat, spec, out_dims, randomness, **kwargs)


class _Replaceable(ModuleType):
    """This module: once a program replaces one of its pieces, every `vmap` is made of them."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name in ("_process_batched_inputs", "_create_batched_inputs", "_unwrap_batched"):
            replace_vmap_impl(_vmap_by_pieces)


sys.modules[__name__].__class__ = _Replaceable


__getattr__ = forward(
    __name__, "maquette.transforms.vmap", spellings=without_underscores, path="_functorch.vmap"
)
__all__ = [
    "_add_batch_dim",
    "_check_randomness_arg",
    "_remove_batch_dim",
    "get_chunk_sizes",
    "in_dims_t",
    "is_batchedtensor",
    "out_dims_t",
    "restore_vmap",
    "unwrap_batched",
    "vmap_impl",
    "vmap_increment_nesting",
    "wrap_batched",
]
