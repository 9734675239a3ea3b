"""`torch._functorch.apis`: `vmap`, `grad` and `grad_and_value`."""

from __future__ import annotations

from maquette.transforms import grad, grad_and_value, vmap
from maquette.transforms.vmap import Dims, Function, process_batched_inputs


def chunk_vmap(
    func: Function,
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Function:
    """`vmap` of the batch in a number of chunks."""

    def wrapped(*args: object, **kwargs: object) -> object:
        size = process_batched_inputs(in_dims, args, func)[0]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=-(-size // chunks))(
            *args, **kwargs
        )

    return wrapped


__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]
