"""`functorch.experimental`: what is public elsewhere by now."""

from maquette.torch._functorch.apis import chunk_vmap
from maquette.torch._functorch.deprecated import functionalize, hessian, jacfwd, jvp
from maquette.torch.func import replace_all_batch_norm_modules_

__all__ = [
    "chunk_vmap",
    "functionalize",
    "hessian",
    "jacfwd",
    "jvp",
    "replace_all_batch_norm_modules_",
]
