"""Tensors as tuples and back: the helpers of `torch.autograd.functional` that programs import."""

from __future__ import annotations

from typing import Any

from maquette.tensor.tensor import Tensor


def _as_tuple(
    inp: Any, arg_name: str | None = None, fn_name: str | None = None
) -> tuple[bool, tuple[Any, ...]]:
    """Whether it is a tuple, and it as one; with names, other than tensors are TypeError."""
    is_tuple = isinstance(inp, tuple)
    parts: tuple[Any, ...] = inp if is_tuple else (inp,)
    for i, part in enumerate(parts):
        if not (isinstance(part, Tensor) or arg_name is fn_name is None):
            found = f"value at index {i}" if is_tuple else f"given {arg_name}"
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors "
                f"but the {found} has type {type(part)}."
            )
    return is_tuple, parts


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """Undo `_as_tuple`, of one tuple or of tuples in a tuple, where the flag is False."""
    outer, inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack, True)
    if not inner:
        res = tuple(part[0] for part in res)
    return res if outer else res[0]


def _grad_preprocess(
    inputs: tuple[Tensor, ...], create_graph: bool, need_graph: bool
) -> tuple[Tensor, ...]:
    """New tensors of the same values, which follow the inputs' graph with create_graph."""
    return tuple(
        (given.clone() if given.is_sparse else given.view_as(given))
        if create_graph and given.requires_grad
        else given.detach().requires_grad_(need_graph)
        for given in inputs
    )


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Results, at any depth of tuples, without their history unless create_graph."""
    if not isinstance(inputs[0], Tensor):
        return tuple(_grad_postprocess(part, create_graph) for part in inputs)
    return inputs if create_graph else tuple(result.detach() for result in inputs)
