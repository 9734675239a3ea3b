"""`torch._vmap_internals`: vmap under the names that PyTorch's older one has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.transforms.batch import OlderVmapInterpreter
from maquette.transforms.vmap import flat_vmap, process_batched_inputs
from maquette.transforms.vmap import vmap as _newer

InDims = int | tuple[Any, ...]


def vmap(func: Callable[..., Any], in_dims: InDims = 0, out_dims: InDims = 0) -> Callable[..., Any]:
    """`torch.vmap`: ``func`` over a dimension of its arguments."""
    return _newer(func, in_dims, out_dims)


def _batched(func: Callable[..., Any], in_dims: InDims, out_dims: InDims) -> Callable[..., Any]:
    def wrapped(*args: Any) -> Any:
        size, flat_dims, flat_args, spec = process_batched_inputs(in_dims, args, func)
        level = OlderVmapInterpreter(size, "error")
        return flat_vmap(func, level, flat_dims, flat_args, spec, out_dims, {})

    return wrapped


def _vmap(
    func: Callable[..., Any],
    in_dims: InDims = 0,
    out_dims: InDims = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """`vmap` under which a `Function` runs operator by operator, as where it has no rule.

    allow_none_pass_through: results may be None, which then is the result.
    """
    if not allow_none_pass_through:
        return _batched(func, in_dims, out_dims)

    def with_nones(*args: Any) -> Any:
        places: list[bool] = []

        def tensors_of(*given: Any) -> tuple[Any, ...]:
            found = func(*given)
            listed = found if isinstance(found, tuple) else (found,)
            places[:] = [t is not None for t in listed]
            single[:] = [not isinstance(found, tuple)]
            return tuple([t for t in listed if t is not None])

        single: list[bool] = []
        results = iter(_batched(tensors_of, in_dims, out_dims)(*args))
        made = tuple([next(results) if there else None for there in places])
        return made[0] if single[0] else made

    return with_nones


__all__ = ["vmap"]
