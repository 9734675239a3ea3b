"""`torch._functorch.vmap`: `vmap` with its pieces."""

from __future__ import annotations

from maquette.torch.forwarding import forward, without_underscores
from maquette.transforms.vmap import (
    unwrap_batched,
    vmap_impl,
    wrap_batched,
)

in_dims_t = int | tuple[object, ...]
out_dims_t = int | tuple[int, ...]
__getattr__ = forward(
    __name__, "maquette.transforms.vmap", spellings=without_underscores, path="_functorch.vmap"
)
__all__ = ["in_dims_t", "out_dims_t", "unwrap_batched", "vmap_impl", "wrap_batched"]
